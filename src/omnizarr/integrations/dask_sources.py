"""Stored arrays that a Dask array reads from, so that it is not written over its own source."""

from __future__ import annotations

import pickle
from contextlib import suppress
from typing import Any

import numpy as np

from omnizarr import stores
from omnizarr.errors import MissingPackage, OmnizarrError, StoreError
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.location import Location
from omnizarr.model import paths
from omnizarr.stores import overlap, place_of
from omnizarr.stores.identity import Place, TellsPlace

try:
    import cloudpickle
except ImportError as e:
    raise MissingPackage("Dask arrays need it: pip install 'omnizarr[dask]'") from e


def check_apart_from(x: Any, target: Array | Location) -> None:
    """Raise where a Dask array reads from the place that it is to be written to."""
    if reads_from(x, target):
        raise StoreError(
            f"the Dask array reads from {paths.show(target.path)} in {target.store!r}, which it is"
            " to be written to, so old and new values would be mixed; write it to another place,"
            " or compute it first"
        )


def reads_from(x: Any, target: Array | Location) -> bool:
    """Return True if a Dask array reads values at or below a node."""
    own = place_of(target.store, paths.prefix(target.path))
    return any(overlap(own, place) for place in sources(x))


def sources(x: Any) -> set[Place]:
    """Return the places of all stored arrays and stores in the graph of a Dask array."""
    finder = _Finder()
    with suppress(Exception):  # what cannot be pickled cannot be looked into
        finder.dump(x.__dask_graph__())
    return finder.found


class _Nothing:
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


class _Finder(cloudpickle.Pickler):  # type: ignore[misc] # it comes without types
    """Goes through all objects of a graph, as if to pickle it."""

    def __init__(self) -> None:
        super().__init__(_Nothing(), protocol=pickle.HIGHEST_PROTOCOL)
        self.found: set[Place] = set()

    def persistent_id(self, obj: Any) -> str | None:
        """Take note of places; no object below one, and no values, need to be looked at."""
        if isinstance(obj, (np.ndarray, bytes)):
            return "values"
        if isinstance(obj, Array):
            self.found.add(place_of(obj.store, paths.prefix(obj.path)))
            return "array"
        if isinstance(obj, TellsPlace) and not isinstance(obj, type):
            self.found.add(obj.place())
            return "store"
        if type(obj).__module__.partition(".")[0] == "zarr" and hasattr(obj, "store_path"):
            with suppress(OmnizarrError):
                self.found.add(place_of(stores.resolve(obj.store_path)))
            return "array"
        return None
