"""The libraries, behind one common interface.

Every library runs with its own defaults. tensorstore is configured not to call fsync, as none of
the others does. A method that a library does not support raises `Cannot`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import itertools
import json
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import OURS, Cannot
from benchmarks.layouts import Layout

PIPELINE = "metadata only: does not depend on the pipeline"


class Peer:
    """A library. Handles are whatever the library's `open` returns."""

    name = ""
    package = ""

    def __init__(self) -> None:
        self.module = importlib.import_module(self.package)

    def active(self) -> AbstractContextManager[Any]:
        """Return a context manager with the settings of the library."""
        return nullcontext()

    def open(self, path: Path, layout: Layout, *, writable: bool = False) -> Any:
        raise NotImplementedError

    def read(self, array: Any, selection: Any = ...) -> Any:
        return array[selection]

    def write(self, array: Any, selection: Any, value: Any) -> None:
        array[selection] = value

    def orthogonal(self, array: Any, selection: Any) -> Any:
        return array.oindex[selection]

    def points(self, array: Any, selection: Any) -> Any:
        return array.vindex[selection]

    def mask(self, array: Any, mask: Any) -> Any:
        return array.vindex[mask]

    def append(self, array: Any, rows: Any) -> Any:
        """Append rows and return the array."""
        array.append(rows)
        return array

    def count_calls(self, path: Path, layout: Layout, data: Any) -> int:
        """Return the number of store calls that fill an empty open array."""
        raise Cannot("does not report its calls")

    def create_arrays(self, path: Path, names: list[str], layout: Layout) -> None:
        raise NotImplementedError

    def list_arrays(self, path: Path) -> list[str]:
        raise NotImplementedError

    def open_arrays(self, path: Path, names: list[str], layout: Layout) -> int:
        """Open all arrays of a group, reading their metadata, and return their number."""
        raise NotImplementedError


class Omnizarr(Peer):
    name = OURS[0]
    package = "omnizarr"

    def open(self, path: Path, layout: Layout, *, writable: bool = False) -> Any:
        return self.module.open(path, mode="r+" if writable else "r")

    def count_calls(self, path: Path, layout: Layout, data: Any) -> int:
        testing = importlib.import_module("omnizarr.testing")
        store = testing.RecordingStore(self.module.storage.LocalStore(path))
        array = self.module.open(store, mode="r+")
        store.calls.clear()
        array[...] = data
        return sum(max(1, len(call.keys)) for call in store.calls)

    def create_arrays(self, path: Path, names: list[str], layout: Layout) -> None:
        group, codecs = self.module.create_group(path), layout.codecs()
        for name in names:
            group.create_array(
                name,
                shape=layout.shape,
                dtype=layout.dtype,
                chunks=layout.chunks,
                codecs=codecs,
            )

    def list_arrays(self, path: Path) -> list[str]:
        return list(self.module.open(path).keys())

    def open_arrays(self, path: Path, names: list[str], layout: Layout) -> int:
        return len(self.module.open(path).members())


class OmnizarrReference(Omnizarr):
    """omnizarr without its compiled kernel."""

    name = OURS[1]

    def active(self) -> AbstractContextManager[Any]:
        return self.module.configure(engine="reference")  # type: ignore[no-any-return]

    def create_arrays(self, path: Path, names: list[str], layout: Layout) -> None:
        raise Cannot("metadata only: does not depend on the engine")

    def list_arrays(self, path: Path) -> list[str]:
        raise Cannot("metadata only: does not depend on the engine")

    def open_arrays(self, path: Path, names: list[str], layout: Layout) -> int:
        raise Cannot("metadata only: does not depend on the engine")


class ZarrPython(Peer):
    name = "zarr-python"
    package = "zarr"

    def open(self, path: Path, layout: Layout, *, writable: bool = False) -> Any:
        return self.module.open_array(path, mode="r+" if writable else "r")

    def count_calls(self, path: Path, layout: Layout, data: Any) -> int:
        inner = self.module.storage.LocalStore(path)
        store = self.module.storage.LoggingStore(inner, log_level="CRITICAL")
        array = self.module.open_array(store, mode="r+")
        store.counter.clear()
        array[...] = data
        return sum(n for name, n in store.counter.items() if name.startswith(("get", "set", "del")))

    def create_arrays(self, path: Path, names: list[str], layout: Layout) -> None:
        group, compressors = self.module.create_group(path), layout.codecs()[1:]
        for name in names:
            group.create_array(
                name,
                shape=layout.shape,
                dtype=layout.dtype,
                chunks=layout.chunks,
                compressors=compressors,
            )

    def list_arrays(self, path: Path) -> list[str]:
        return list(self.module.open_group(path, mode="r").array_keys())

    def open_arrays(self, path: Path, names: list[str], layout: Layout) -> int:
        return len(self.module.open_group(path, mode="r").members())


class Pipeline(ZarrPython):
    """zarr-python with another codec pipeline."""

    path = ""

    def __init__(self) -> None:
        super().__init__()
        module, _, name = self.path.rpartition(".")
        if not hasattr(importlib.import_module(module), name):
            raise ImportError(f"this zarr-python has no {name}")

    def active(self) -> AbstractContextManager[Any]:
        return self.module.config.set({"codec_pipeline.path": self.path})  # type: ignore[no-any-return]

    def create_arrays(self, path: Path, names: list[str], layout: Layout) -> None:
        raise Cannot(PIPELINE)

    def list_arrays(self, path: Path) -> list[str]:
        raise Cannot(PIPELINE)

    def open_arrays(self, path: Path, names: list[str], layout: Layout) -> int:
        raise Cannot(PIPELINE)


class Fused(Pipeline):
    name = "zarr-python Fused"
    path = "zarr.core.codec_pipeline.FusedCodecPipeline"


class Zarrs(Pipeline):
    """zarrs falls back to zarr-python's default pipeline for what it does not support."""

    name = "zarr-python zarrs"
    path = "zarrs.ZarrsCodecPipeline"

    def count_calls(self, path: Path, layout: Layout, data: Any) -> int:
        raise Cannot("bypasses the store that counts")


class Tensorstore(Peer):
    name = "tensorstore"
    package = "tensorstore"

    def __init__(self) -> None:
        super().__init__()
        self.context = self.module.Context({"file_io_sync": False})

    def _spec(self, path: Path, layout: Layout) -> dict[str, Any]:
        driver = "zarr" if layout.zarr_format == 2 else "zarr3"
        return {"driver": driver, "kvstore": {"driver": "file", "path": os.fspath(path)}}

    def open(self, path: Path, layout: Layout, *, writable: bool = False) -> Any:
        if layout.dtype == "string":
            raise Cannot("has no variable-length strings in Zarr")
        return self.module.open(
            self._spec(path, layout), open=True, read=True, write=writable, context=self.context
        ).result()

    def read(self, array: Any, selection: Any = ...) -> Any:
        return array[selection].read().result()

    def write(self, array: Any, selection: Any, value: Any) -> None:
        array[selection].write(value).result()

    def count_calls(self, path: Path, layout: Layout, data: Any) -> int:
        array = self.open(path, layout, writable=True)
        before = self._calls()
        self.write(array, ..., data)
        return self._calls() - before

    def _calls(self) -> int:
        """Return the number of file reads and writes so far, from its own metrics."""
        folder = "/tensorstore/kvstore/file/"
        found = self.module.experimental_collect_matching_metrics(folder)
        counted = [m for m in found if m["name"] in (f"{folder}read", f"{folder}write")]
        return sum(int(v["value"]) for m in counted for v in m["values"])

    def orthogonal(self, array: Any, selection: Any) -> Any:
        return array.oindex[selection].read().result()

    def points(self, array: Any, selection: Any) -> Any:
        return array.vindex[selection].read().result()

    def mask(self, array: Any, mask: Any) -> Any:
        return array[mask].read().result()

    def append(self, array: Any, rows: Any) -> Any:
        start = array.shape[0]
        array = array.resize(exclusive_max=(start + len(rows), *array.shape[1:])).result()
        array[start:].write(rows).result()
        return array

    def create_arrays(self, path: Path, names: list[str], layout: Layout) -> None:
        open_, document = self.module.open, layout.document()
        futures = [
            open_(
                {**self._spec(path / name, layout), "metadata": document},
                create=True,
                context=self.context,
            )
            for name in names
        ]
        for future in futures:
            future.result()

    def list_arrays(self, path: Path) -> list[str]:
        raise Cannot("has no groups")

    def open_arrays(self, path: Path, names: list[str], layout: Layout) -> int:
        open_ = self.module.open
        futures = [
            open_(self._spec(path / name, layout), open=True, read=True, context=self.context)
            for name in names
        ]
        return len([future.result() for future in futures])


class Zarrista(Peer):
    name = "zarrista"
    package = "zarrista"

    def _store(self, path: Path) -> Any:
        return self.module.store.FilesystemStore(os.fspath(path))

    def open(self, path: Path, layout: Layout, *, writable: bool = False) -> Any:
        return self.module.Array.open(self._store(path))

    def read(self, array: Any, selection: Any = ...) -> Any:
        return array.retrieve_array_subset(selection).to_numpy()

    def write(self, array: Any, selection: Any, value: Any) -> None:
        if value.dtype.kind in "OT":
            items = [item.encode() for item in value.tolist()]
            offsets = [0, *itertools.accumulate(len(item) for item in items)]
            value = self.module.ArrayBytes(b"".join(items), offsets=offsets)
        array.store_array_subset(selection, value)

    def orthogonal(self, array: Any, selection: Any) -> Any:
        raise Cannot("has no orthogonal selection")

    def points(self, array: Any, selection: Any) -> Any:
        raise Cannot("has no coordinate selection")

    def mask(self, array: Any, mask: Any) -> Any:
        raise Cannot("has no mask selection")

    def append(self, array: Any, rows: Any) -> Any:
        start, *rest = array.shape
        array = array.with_shape([start + len(rows), *rest])
        array.store_metadata()
        array.store_array_subset(slice(start, start + len(rows)), np.ascontiguousarray(rows))
        return array

    def create_arrays(self, path: Path, names: list[str], layout: Layout) -> None:
        # It cannot create groups, so the metadata of the group is written directly.
        group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
        (path / "zarr.json").write_text(json.dumps(group))
        store, document = self._store(path), layout.document()
        for name in names:
            self.module.Array.from_metadata(document, store, f"/{name}").store_metadata()

    def list_arrays(self, path: Path) -> list[str]:
        return list(self.module.Group.open(self._store(path)).array_keys())

    def open_arrays(self, path: Path, names: list[str], layout: Layout) -> int:
        return len(self.module.Group.open(self._store(path)).child_arrays())


class Missing(Peer):
    """A library that is not installed."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason

    def active(self) -> AbstractContextManager[Any]:
        raise Cannot(self.reason)


LIBRARIES = (Omnizarr, OmnizarrReference, ZarrPython, Fused, Zarrs, Tensorstore, Zarrista)
NAMES = tuple(library.name for library in LIBRARIES)


def load(name: str) -> Peer:
    """Return a library by name, or `Missing` if it cannot be imported."""
    [library] = [each for each in LIBRARIES if each.name == name]
    try:
        return library()
    except ImportError as e:
        return Missing(name, f"not installed: {e}")


def versions() -> dict[str, str]:
    """Return the installed versions by package name."""
    found = {}
    for package in ("omnizarr", "zarr", "zarrs", "tensorstore", "zarrista", "numcodecs", "numpy"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
