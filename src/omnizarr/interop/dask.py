"""Read stored arrays as Dask arrays, and store Dask arrays.

``array.to_dask()`` has one block for every stored chunk or shard. `from_dask` stores an array with
tasks that each write whole chunks or shards. No two tasks write the same stored value, so threads,
processes and machines need no lock, for any blocks. Tasks are divided at the borders of
blocks, rounded down to the border of a stored value: there are at most as many tasks as blocks, and
at most as many as stored values.
"""

from __future__ import annotations

import os
import pickle
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np

from omnizarr import Array, extension
from omnizarr.bulk.tiles import Box, stored_axes
from omnizarr.errors import MissingModule, OmnizarrError, SelectionError, StoreError, WrongType
from omnizarr.extension import (
    GridAxis,
    Location,
    Store,
    bound_array,
    build,
    location_of,
    paths,
    stores,
)

try:
    import cloudpickle
    import dask.array as da
    from dask.base import compute_as_if_collection, tokenize
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph
except ImportError as e:
    raise MissingModule("Dask arrays need Dask: pip install 'omnizarr[dask]'") from e


def to_dask(array: Array, chunks: Any = None, name: str | None = None) -> Any:
    """Return a Dask array that reads a stored array; see `Array.to_dask`."""
    blocks: Any = tuple(
        along or (0,) for along in array.write_chunk_sizes
    )  # Dask requires at least one block
    if chunks is not None:
        blocks = da.core.normalize_chunks(
            chunks, array.shape, dtype=array.dtype, previous_chunks=blocks
        )
    label = name or f"omnizarr-{tokenize(array, blocks)}"
    return da.from_array(array, chunks=blocks, name=label, inline_array=True, fancy=False)


def token(array: Array) -> tuple[Any, ...]:
    """Return a token that identifies the array and its contents, for the names of tasks.

    It consists of the location and the metadata. In a directory or in memory, it also has the
    generation of every stored value, so that it changes with the data; elsewhere that would take
    one request per chunk.
    """
    store: Any = array.store
    bound = bound_array(array)
    identity: Any = extension.key_digest(extension.unique_key(store))
    if stores.traits(store).process_local:  # stores with the same values are equal
        identity = type(store), hash(store)
    format = location_of(array).format
    metadata = format.write(array.path, extension.model_of(array))
    if not stores.traits(store).cheap_requests or not stores.can_list(store):
        return ("omnizarr.Array", identity, array.path, metadata)
    keys = [*format.keys(array.path), *sorted(k for _, k in extension.stored_keys(bound))]
    generations = [(key, store.generation(key)) for key in keys]
    return ("omnizarr.Array", identity, array.path, metadata, generations)


@extension.document_options(extension.CreateOptions)
def from_dask(
    x: Any,
    store: Any = None,
    *,
    path: str | None = None,
    region: Iterable[slice] | None = None,
    compute: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Store a Dask array in a new array, or in a region of an existing `Array`.

    Every task stores whole chunks or shards, so any scheduler may run them, for
    any blocks.

    Args:
        x: The Dask array.
        store: A path, URL, dict or store for a new array, or an existing `Array`.
        path: The path of the new array in the store.
        region: A slice for every axis of an existing array.
        compute: False to create the array and leave the values to a `dask.delayed.Delayed`.
        storage_options: Options for the store of a URL, such as credentials.
        **options: Options of `create_array`; by default, chunks are the blocks of `x` if these are
            regular.

    Returns:
        The array, or with ``compute=False`` the tasks that store the values.

    Raises:
        WrongType: If `x` is not a Dask array.
        NodeExists: If there is a node at the path.

    Examples:
        >>> import dask.array
        >>> oz.from_dask(dask.array.arange(6, chunks=3) * 2, "a.zarr")[...]
        array([ 0,  2,  4,  6,  8, 10])
    """
    if not isinstance(x, da.Array):
        raise WrongType(f"from_dask takes a Dask array, got {type(x).__name__}")
    check_known(x)
    if isinstance(store, Array):
        if options or path or storage_options:
            given = sorted({**options, **({"path": path} if path else {})})
            raise WrongType(f"options cannot be changed for an existing array; omit {given}")
        start = _start(x, store, region)
        check_apart_from(x, store)
        return run([writes(x, store, start)], lambda: store, compute)
    if region is not None:
        raise WrongType("region requires an existing array; open it with mode 'r+' and pass it")
    chosen: dict[str, Any] = {"shape": x.shape, "dtype": x.dtype, **options}
    regular = regular_chunks(x.chunks)
    if regular is not None and "chunks" not in chosen:
        chosen["chunks"] = regular
    zarr_format = chosen.pop("zarr_format", None)
    overwrite = bool(chosen.pop("overwrite", False))
    name = chosen.pop("name", None)
    location = extension.new_location(
        store, name if path is None else path, zarr_format, storage_options
    )
    if compute:  # the array becomes visible when it is complete
        operation = "writing a Dask array"
        with build(location, overwrite=overwrite, operation=operation, implied=True) as staged:
            new = _create(staged, False, chosen)
            run([writes(x, new, _start(x, new, None))], lambda: None, True)
        return Array.at(location, extension.model_of(new)).with_config(new.config)
    if overwrite:
        check_apart_from(x, location)
    target = _create(location, overwrite, chosen)
    return run([writes(x, target, _start(x, target, None))], lambda: target, compute)


def _create(location: Location, overwrite: bool, options: dict[str, Any]) -> Array:
    rest: Any = {k: v for k, v in options.items() if k not in ("shape", "dtype")}
    model = extension.array_model(location.format, options["shape"], options["dtype"], rest)
    made = extension.store_array(location, model, None, overwrite)
    return made if rest.get("config") is None else made.with_config(rest["config"])


def regular_chunks(blocks: tuple[tuple[int, ...], ...]) -> tuple[int, ...] | None:
    """Return the shape of regular blocks, where only the last may be shorter; else None."""
    if not all(blocks):
        return None
    for axis in blocks:
        if len(set(axis[:-1])) > 1 or axis[-1] > axis[0]:
            return None
    return tuple(max(1, axis[0]) for axis in blocks)


def _start(x: Any, array: Array, region: Iterable[slice] | None) -> tuple[int, ...]:
    """Return the start of a region; raise if `x` does not have the region's shape."""
    parts = (slice(None),) * array.ndim if region is None else tuple(region)
    if len(parts) != array.ndim or any(p.step not in (None, 1) for p in parts):
        raise SelectionError(
            f"region must have a slice without a step for each of {array.ndim} axes, got {parts}"
        )
    bounds = [p.indices(n)[:2] for p, n in zip(parts, array.shape, strict=True)]
    room = tuple(max(0, b - a) for a, b in bounds)
    if room != x.shape:
        raise SelectionError(f"values of shape {x.shape} do not fit the region of shape {room}")
    return tuple(a for a, _ in bounds)


def run(todo: list[Writes], finish: Callable[[], Any], compute: bool) -> Any:
    """Run the tasks and then `finish`: now, or when the returned object is computed."""
    graph = HighLevelGraph.merge(*(w.graph for w in todo))
    keys = [key for w in todo for key in w.keys]
    if compute:
        if keys:
            compute_as_if_collection(da.Array, graph, keys)
        return finish()
    last = f"omnizarr-finish-{keys[0][0] if keys else tokenize(finish)}"
    done = HighLevelGraph(
        {**graph.layers, last: {last: (lambda done: finish(), keys)}},
        {**graph.dependencies, last: {w.keys[0][0] for w in todo if w.keys}},
    )
    return Delayed(last, done)


def check_apart_from(x: Any, target: Array | Location) -> None:
    """Raise if a Dask array reads from the node that it is to be written to."""
    own = stores.storage_identity(target.store, paths.prefix(target.path))
    if any(stores.overlap(own, identity) for identity in sources(x)):
        raise StoreError(
            f"the Dask array reads from {paths.show(target.path)} in {target.store!r}, where it is"
            " to be written, so old and new values would be mixed; write it somewhere else, or"
            " compute it first"
        )


def sources(x: Any) -> set[extension.StorageIdentity]:
    """Return the locations of all stored arrays and stores in the graph of a Dask array."""
    finder = _Finder()
    with suppress(Exception):  # objects that cannot be pickled cannot be searched
        finder.dump(x.__dask_graph__())
    return finder.found


class _Finder(cloudpickle.Pickler):  # type: ignore[misc] # it comes without types
    """Visits all objects of a graph, as if to pickle it."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace(write=len), protocol=pickle.HIGHEST_PROTOCOL)
        self.found: set[extension.StorageIdentity] = set()

    def persistent_id(self, obj: Any) -> str | None:
        """Record locations; objects inside stores and arrays are not visited."""
        if isinstance(obj, (np.ndarray, bytes)):
            return "values"
        if isinstance(obj, Array):
            self.found.add(stores.storage_identity(obj.store, paths.prefix(obj.path)))
            return "array"
        if isinstance(obj, Store):
            self.found.add(stores.storage_identity(obj))
            return "store"
        if type(obj).__module__.partition(".")[0] == "zarr" and hasattr(obj, "store_path"):
            with suppress(OmnizarrError):
                self.found.add(stores.storage_identity(stores.resolve(obj.store_path)))
            return "array"
        return None


@dataclass(frozen=True, slots=True)
class Span:
    """A range of one axis that a task writes, and the blocks with its values."""

    start: int
    stop: int
    blocks: tuple[int, ...]
    inside: tuple[slice, ...]  # targets of the blocks within the range
    taken: tuple[slice, ...]  # parts of the blocks


@dataclass(frozen=True, slots=True)
class Part:
    """A task that combines pieces of blocks and stores them in one box."""

    array: Array
    box: Box
    pieces: tuple[tuple[Box, Box], ...]  # target in the box, and part of the block
    process: int | None  # the only process that can access the store, or None for any

    def __call__(self, blocks: list[Any]) -> None:
        if self.process not in (None, os.getpid()):
            raise StoreError(
                f"{self.array.name} is in the memory of process {self.process}, and this is"
                f" {os.getpid()}; use the scheduler 'threads', or a store that both can access"
            )
        if len(blocks) == 1:
            values = np.asarray(blocks[0])[self.pieces[0][1]]
        else:
            values = np.empty([s.stop - s.start for s in self.box], blocks[0].dtype)
            for block, (inside, taken) in zip(blocks, self.pieces, strict=True):
                values[inside] = np.asarray(block)[taken]
        self.array[self.box] = values


@dataclass(frozen=True, slots=True)
class Writes:
    """A graph whose tasks store a Dask array, and the keys of those tasks."""

    graph: HighLevelGraph
    keys: list[tuple[Any, ...]]


def writes(x: Any, array: Array, start: tuple[int, ...]) -> Writes:
    """Return the tasks that store a Dask array in a stored array, starting at a position."""
    check_known(x)
    name = f"omnizarr-write-{uuid.uuid4().hex}"
    process = os.getpid() if stores.traits(array.store).process_local else None
    axes = stored_axes(array)
    spans = [list(axis_spans(a, s, b)) for a, s, b in zip(axes, start, x.chunks, strict=True)]
    layer: dict[Any, Any] = {}
    for index in product(*(range(len(s)) for s in spans)):
        chosen = [s[i] for s, i in zip(spans, index, strict=True)]
        box = tuple(slice(s.start, s.stop) for s in chosen)
        pieces = tuple(
            zip(
                product(*(s.inside for s in chosen)),
                product(*(s.taken for s in chosen)),
                strict=True,
            )
        )
        blocks = [(x.name, *block) for block in product(*(s.blocks for s in chosen))]
        layer[(name, *index)] = (Part(array, box, pieces, process), blocks)
    return Writes(HighLevelGraph.from_collections(name, layer, dependencies=[x]), list(layer))


def axis_spans(axis: GridAxis, start: int, blocks: tuple[int, ...]) -> Iterator[Span]:
    """Yield the ranges of one axis, for consecutive blocks that begin at a position."""
    borders = [start, *(int(b) for b in start + np.cumsum(blocks, dtype=np.int64))]
    end = borders[-1]
    inner = (int(axis.start(axis.chunk_of(b))) for b in borders[1:-1] if b < end)
    cuts = sorted({start, *(c for c in inner if c > start), end})
    for low, high in pairwise(cuts):
        first, last = bisect_right(borders, low) - 1, bisect_left(borders, high)
        numbers = [n for n in range(first, last) if blocks[n]]
        sides = [(max(low, borders[n]), min(high, borders[n + 1])) for n in numbers]
        inside = tuple(slice(a - low, b - low) for a, b in sides)
        starts = [borders[n] for n in numbers]
        taken = tuple(slice(a - s, b - s) for (a, b), s in zip(sides, starts, strict=True))
        yield Span(low, high, tuple(numbers), inside, taken)


def check_known(x: Any) -> None:
    """Raise if the lengths of blocks are unknown until they are computed."""
    if any(np.isnan(n) for axis in x.chunks for n in axis):
        raise SelectionError(
            f"the lengths of some blocks are unknown, got chunks {x.chunks};"
            " call x.compute_chunk_sizes() first"
        )
