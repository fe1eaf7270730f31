"""The archives of golden data, unpacked once per test run."""

from __future__ import annotations

import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

import omnizarr as oz

HERE = Path(__file__).parent
V1 = "v1-by-zarr-1.1.0"
V2 = "v2-by-zarr-2.17.2"
SNAPPY = "v2-snappy-by-zarr-2.6.1"
CODECS = ("v2-codecs-by-zarr-2.18.7", "v3-codecs-by-zarr-3.1.6")
DRAFT = "v3draft-by-zarr-2.17.2"
MAPS = "maps-by-gdal"
ZARRS = "v3-by-zarrista-0.1.0"


@cache
def contents(archive: str) -> dict[str, bytes]:
    """Return all files of an archive."""
    with zipfile.ZipFile(HERE / f"{archive}.zip") as file:
        return {name: file.read(name) for name in file.namelist() if not name.endswith("/")}


def store(archive: str, folder: str) -> oz.storage.MemoryStore:
    """Return the files below a folder as a read-only store."""
    start = f"{folder}/"
    found = {k[len(start) :]: v for k, v in contents(archive).items() if k.startswith(start)}
    return oz.storage.MemoryStore(found, read_only=True)


def names(archive: str) -> list[str]:
    """Return the arrays, by path."""
    files = [k for k in contents(archive) if k.startswith("expected/")]
    return sorted(Path(k).stem.replace("__", "/") for k in files)


def expected(archive: str, name: str) -> npt.NDArray[np.generic]:
    """Return the values that the writer itself read back."""
    import io

    data = contents(archive)[f"expected/{name.replace('/', '__')}.npy"]
    # Object arrays are pickled by NumPy; the files are ours.
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=True))


def equal(found: npt.NDArray[np.generic], wanted: npt.NDArray[np.generic]) -> bool:
    """Return True if values agree to the bit, or item by item if they are objects."""
    if found.shape != wanted.shape:
        return False
    if wanted.dtype.kind == "O":
        pairs = zip(found.ravel().tolist(), wanted.ravel().tolist(), strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)
    return found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes()
