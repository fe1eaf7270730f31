"""Write ``hdf5-by-hdf5plugin-7.1.0.h5``, for which the package hdf5plugin must be installed.

Each dataset has the values of ``expected/<type>``, through one filter or several. The first rows
are smooth, the last ones noise, which most filters leave as it is.

>>> python write_hdf5.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np

TYPES = ("<i4", ">u2", "|u1")
FILTERS: dict[str, Any] = {
    "lzf": {"compression": "lzf"},
    "shuffle-lzf-fletcher32": {"compression": "lzf", "shuffle": True, "fletcher32": True},
    "lz4": hdf5plugin.LZ4(),
    "lz4-blocks": hdf5plugin.LZ4(nbytes=128),
    "shuffle-lz4": {**hdf5plugin.LZ4(), "shuffle": True},
    "bitshuffle": hdf5plugin.Bitshuffle(cname="none"),
    "bitshuffle-blocks": hdf5plugin.Bitshuffle(nelems=64, cname="none"),
    "bitshuffle-gzip": None,
    "bitshuffle-lz4": hdf5plugin.Bitshuffle(cname="lz4"),
    "bitshuffle-zstd": hdf5plugin.Bitshuffle(cname="zstd"),
    "blosc": hdf5plugin.Blosc(cname="zstd", clevel=7, shuffle=hdf5plugin.Blosc.BITSHUFFLE),
    "blosc2": hdf5plugin.Blosc2(),
    "zstd": hdf5plugin.Zstd(),
    "bzip2": hdf5plugin.BZip2(),
}


def write(path: Path) -> None:
    """Write the file."""
    rng = np.random.default_rng(1)
    with h5py.File(path, "w", libver="latest") as file:
        for kind in TYPES:
            values = np.arange(33 * 34).reshape(33, 34) // 5
            values[22:] = rng.integers(0, 2**31, values[22:].shape)
            expected = values.astype(kind)
            name = np.dtype(kind).name
            file[f"expected/{name}"] = expected
            for filters, options in FILTERS.items():
                path_inside = f"{filters}/{name}"
                if options is not None:
                    file.create_dataset(path_inside, data=expected, chunks=(11, 17), **options)
                    continue
                plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                plist.set_chunk((11, 17))
                plist.set_filter(32008, h5py.h5z.FLAG_MANDATORY, (0, 0))
                plist.set_deflate(6)
                space = h5py.h5s.create_simple(expected.shape)
                stored = h5py.h5t.py_create(expected.dtype)
                group = file.require_group(filters)
                made = h5py.h5d.create(group.id, name.encode(), stored, space, plist)
                h5py.Dataset(made)[...] = expected


if __name__ == "__main__":
    write(Path(__file__).with_name(f"hdf5-by-hdf5plugin-{hdf5plugin.version}.h5"))
