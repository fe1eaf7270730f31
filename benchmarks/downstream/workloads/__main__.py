"""Write a small dataset with a package and read one back, on whichever library `zarr` is.

``workloads/__main__.py PACKAGE WRITTEN READ ANSWER`` runs in the environment of the package, by
itself or with ``python -m omnizarr.as_zarr``. It writes in the folder WRITTEN, unless that is a
hyphen, and reads the folder READ. What was read is stored as JSON in the file ANSWER: what the
package returns, and every array and attribute that `zarr` finds in the folder.
"""

# ruff: noqa: PLC0415 - zarr is whichever library the process runs on

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

MODULES = {
    "general": ("dask", "xarray", "cubed"),
    "microscopy": ("ome-zarr", "ome-zarr-models", "iohub", "napari-ome-zarr", "bioio-ome-zarr"),
    "biology": ("anndata", "spatialdata", "hdmf-zarr", "bio2zarr", "sgkit"),
    "references": ("icechunk", "kerchunk", "virtualizarr", "pydantic-zarr"),
}


def main(package: str, written: str, read: str, answer: str) -> None:
    from benchmarks.downstream.workloads.contents import find_nodes, flatten

    (name,) = (module for module, packages in MODULES.items() if package in packages)
    module = importlib.import_module(f"benchmarks.downstream.workloads.{name}")
    work = package.replace("-", "_")
    if written != "-":
        getattr(module, f"write_{work}")(Path(written))
    found: dict[str, Any] = {}
    found.update(flatten(getattr(module, f"read_{work}")(Path(read)), ""))
    found.update(flatten(find_nodes(Path(read)), "zarr"))
    import zarr

    found["library"] = zarr.Array.__module__
    Path(answer).write_text(json.dumps(found))


if __name__ == "__main__":
    # Last, so that no folder of the checkout hides a package.
    sys.path.append(str(Path(__file__).parents[3]))
    main(*sys.argv[1:])
