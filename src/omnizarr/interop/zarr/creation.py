"""Create arrays and groups as zarr-python does.

With zarr-python installed, it makes the metadata of new arrays from their options (`describe`), so
that they are what it would have stored; omnizarr stores them and everything else. Without it,
options and defaults are omnizarr's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from omnizarr import Array, errors
from omnizarr.errors import InvalidArgument
from omnizarr.formats import by_name
from omnizarr.hierarchy import create as hierarchy
from omnizarr.hierarchy.build import build, make_array, store_array
from omnizarr.hierarchy.group import make_group
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.node import node_from_description
from omnizarr.hierarchy.selection import ArrayConfig, as_source
from omnizarr.interop.zarr import config, copying, library
from omnizarr.interop.zarr.arrays import ZarrArray
from omnizarr.interop.zarr.codecs import to_zarr
from omnizarr.interop.zarr.config import one_version, own_options
from omnizarr.interop.zarr.errors import translated
from omnizarr.interop.zarr.groups import ZarrGroup
from omnizarr.interop.zarr.nodes import facade, with_text_keys
from omnizarr.interop.zarr.stores import ZarrPlace, ZarrTarget, locate
from omnizarr.model import ArrayModel

# The options of an array from data that is not like them.
_AUTO: dict[str, Any] = {
    **dict.fromkeys(("chunks", "filters", "compressors", "serializer"), "auto"),
    "shards": None,
}
_CODECS = ("compressors", "compressor", "filters", "serializer", "codecs", "object_codec")
# Options that are not described in metadata.
_ABOUT_STORING = ("overwrite", "config", "write_data", "write_empty_chunks")


# New arrays


def describe(function: str, options: dict[str, Any]) -> Any:
    """Return the metadata that zarr-python makes for a new array from options of a function."""
    make = library.original("zarr.api.asynchronous", function)
    options = {**options, "store": library.scratch_store(), "overwrite": True}
    if isinstance(options.get("dtype"), (str, np.dtype)):
        options["dtype"] = library.data_type(options["dtype"], options.get("zarr_format") or 3)
    return library.run_now(lambda: make(**options)).metadata


def _store_new(
    target: ZarrTarget, function: str, options: dict[str, Any], data: Any, overwrite: bool
) -> ZarrArray:
    """Store a new array that options of a function of zarr-python describe."""
    runtime = config.array_config(options.get("config"))
    keep = options.get("write_empty_chunks")
    if keep is not None:
        runtime = replace(runtime, write_empty_chunks=keep)
    if not library.is_installed() or options.get("zarr_format") not in (None, 2, 3):
        return _store_with_own_options(target, options, data, overwrite, runtime)
    version = options.get("zarr_format") or 3
    options = {
        name: to_zarr(value, version) if name in _CODECS else value
        for name, value in options.items()
    }
    metadata = describe(function, options)
    node, name = node_from_description(target.path, metadata)
    if not isinstance(node, ArrayModel):
        raise InvalidArgument("the options describe no array")
    location = Location(target.store, target.path, by_name(name or 3))
    own = config.handle_config(runtime, None)
    if _is_stored(data):
        stored = _copied(location, node, data, overwrite, own)
    else:
        values = None if data is None else as_source(data)
        stored = store_array(location, node, values, overwrite, own)
    _warn_of_order(metadata)
    # The metadata have what is not stored, such as the order in which chunks are written.
    described = (stored._model, None, metadata)
    return ZarrArray.adopt(stored, target.given, _runtime=runtime, _described=described)


def _warn_of_order(metadata: Any) -> None:
    """Warn of an order of chunks in shards that only zarr-python writes."""
    for codec in getattr(metadata, "codecs", ()):
        if getattr(codec, "subchunk_write_order", None) == "colexicographic":
            errors.warn(
                "subchunk_write_order='colexicographic' has no effect here: chunks in a shard are"
                " stored in the order of their index, the last axis first"
            )


def _is_stored(data: Any) -> bool:
    """Return True for arrays of either library, which may be larger than the memory."""
    return isinstance(data, Array) or hasattr(data, "async_array")


def _copied(
    location: Location, model: ArrayModel, source: Any, overwrite: bool, own: ArrayConfig
) -> Array:
    """Store a new array and copy another one into it, a few chunks at a time."""
    operation = "copying an array"
    with build(location, overwrite=overwrite, operation=operation, implied=True) as staged:
        new = store_array(staged, model, None, False, own)
        copying.copy_values(source, new)
    return Array.at(location, new._model)


def _store_with_own_options(
    target: ZarrTarget, options: dict[str, Any], data: Any, overwrite: bool, runtime: Any
) -> ZarrArray:
    """Store a new array by omnizarr's options, which are zarr-python's but for some defaults."""
    stored = {k: v for k, v in options.items() if k not in (*_ABOUT_STORING, "data")}
    given = own_options(stored)
    shape, dtype = given.pop("shape", None), given.pop("dtype", None)
    location = Location(target.store, target.path, by_name(given.pop("zarr_format", 3)))
    source = options.get("data", data)
    made = make_array(location, shape, dtype, source, overwrite, given, data is not None)  # type: ignore[arg-type]
    return ZarrArray.adopt(made, target.given, _runtime=runtime)


def create_array(
    store: Any = None,
    *,
    name: str | None = None,
    zarr_format: Any = 3,
    storage_options: Any = None,
    **options: Any,
) -> ZarrArray:
    """Create an array; `store` is a path, URL, dictionary or store."""
    with translated("array"):
        target = locate(store, options.pop("path", name), "a", storage_options)
    return create_array_at(target, zarr_format=zarr_format, **options)


def create_array_at(target: ZarrTarget, *, zarr_format: Any = 3, **options: Any) -> ZarrArray:
    """Create an array at a place, with the options of `create_array`."""
    write, function = options.pop("write_data", True), "create_array"
    overwrite = bool(options.pop("overwrite", False))
    options["zarr_format"] = config.default_format(zarr_format)
    data = options.get("data")
    if data is not None:
        data = options["data"] = _source(data)
        if library.is_installed():
            check = library.original("zarr.core.array", "_parse_data_params")
            check(data=data, shape=options.pop("shape", None), dtype=options.pop("dtype", None))
            function, options = "from_array", {**_AUTO, **options, "write_data": False}
    with translated("array"), config.settings():
        return _store_new(target, function, options, data if write else None, overwrite)


def from_array(
    store: Any = None,
    *,
    data: Any,
    write_data: bool = True,
    name: str | None = None,
    storage_options: Any = None,
    overwrite: bool = False,
    **options: Any,
) -> ZarrArray:
    """Create an array from another; options that are not given are those of `data`."""
    with translated("array"), config.settings():
        target = locate(store, options.pop("path", name), "a", storage_options)
        source = _source(data)
        if not library.is_installed():
            made = copying.from_array(
                target.store,
                name=target.path,
                data=source,
                write_data=write_data,
                overwrite=overwrite,
                **options,
            )
            return ZarrArray.adopt(made, target.given)
        options |= {"data": source, "write_data": False}
        return _store_new(target, "from_array", options, source if write_data else None, overwrite)


def _source(data: Any) -> Any:
    """Return array-like data; nodes of omnizarr in zarr-python's form."""
    if isinstance(data, Array):
        return facade(data)
    blocking = getattr(data, "blocking", None)
    return data if blocking is None else blocking


def create(
    shape: Any,
    *,
    store: Any = None,
    path: str | None = None,
    overwrite: bool = False,
    zarr_format: Any = None,
    storage_options: Any = None,
    data: Any = None,
    **options: Any,
) -> ZarrArray:
    """Create an array with the shape first and zarr-python 2's options."""
    mode = options.pop("mode", None) or "a"
    overwrite = (overwrite or mode == "w") and mode != "w-"
    wanted = one_version(zarr_format, options.pop("zarr_version", None))
    if options.get("name") is not None:
        path = options.pop("name")
    with translated("array"), config.settings():
        target = locate(store, path, mode, storage_options)
        return _store_new(
            target,
            "create",
            {**options, "shape": shape, "zarr_format": config.default_format(wanted)},
            data,
            overwrite,
        )


def check_storable(data: Any, zarr_format: Any) -> None:
    """Raise if zarr-python cannot describe an array that holds `data`."""
    if library.is_installed():
        wanted = config.default_format(zarr_format)
        describe("create", {"shape": data.shape, "dtype": data.dtype, "zarr_format": wanted})


def array(data: Any, **options: Any) -> ZarrArray:
    """Create an array that holds `data`."""
    source = _source(data)
    if not hasattr(source, "shape") or not hasattr(source, "dtype"):
        source = np.asanyarray(source)
    given = {"shape": source.shape, "dtype": source.dtype, **options}
    chunks = getattr(source, "chunks", None)
    if isinstance(chunks, tuple) and all(isinstance(c, int) for c in chunks):
        given.setdefault("chunks", chunks)
    return create(given.pop("shape"), data=source, **given)


def empty(shape: Any, **options: Any) -> ZarrArray:
    """Create an array of arbitrary values; they are the fill value."""
    return create(shape, **options)


def zeros(shape: Any, **options: Any) -> ZarrArray:
    """Create an array of zeros."""
    return create(shape, **{**options, "fill_value": 0})


def ones(shape: Any, **options: Any) -> ZarrArray:
    """Create an array of ones."""
    return create(shape, **{**options, "fill_value": 1})


def full(shape: Any, fill_value: Any, **options: Any) -> ZarrArray:
    """Create an array of one value."""
    return create(shape, **{**options, "fill_value": fill_value})


def options_like(a: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of an array like another one."""
    source = _source(a)
    found: dict[str, Any] = {}
    if isinstance(getattr(source, "shape", None), tuple):
        found["shape"] = source.shape
        chunks = getattr(source, "chunks", None)
        if isinstance(chunks, tuple) and len(chunks) == len(source.shape):
            found["chunks"] = tuple(c[0] if isinstance(c, tuple) and c else c for c in chunks)
    if hasattr(source, "dtype"):
        found["dtype"] = source.dtype
    if options.get("zarr_format", 0) is None:
        options = {k: v for k, v in options.items() if k != "zarr_format"}
    if isinstance(source, ZarrArray):
        wanted = options.get("zarr_format", source.zarr_format)
        found["zarr_format"] = source.zarr_format
        if wanted == source.zarr_format and source.zarr_format == 2:
            compressors = source.compressors
            found |= {
                "order": source.order,
                "compressor": compressors[0] if compressors else None,
                "filters": source.filters or None,
            }
        elif wanted == source.zarr_format and source._theirs:
            found["codecs"] = source.metadata.codecs
            found["chunks"] = source.shards or source.chunks
    return {**found, **options}


def empty_like(a: Any, **options: Any) -> ZarrArray:
    """Create an array with the shape, type and chunks of another, of arbitrary values."""
    found = options_like(a, options)
    if isinstance(a, Array):
        found.setdefault("fill_value", a.fill_value)
    return empty(**found)


def zeros_like(a: Any, **options: Any) -> ZarrArray:
    """Create an array of zeros with the shape, type and chunks of another."""
    return zeros(**options_like(a, options))


def ones_like(a: Any, **options: Any) -> ZarrArray:
    """Create an array of ones with the shape, type and chunks of another."""
    return ones(**options_like(a, options))


def full_like(a: Any, **options: Any) -> ZarrArray:
    """Create an array of one value with the shape, type and chunks of another."""
    found = options_like(a, options)
    if isinstance(a, Array):
        found.setdefault("fill_value", a.fill_value)
    return full(**found)


# Groups


def create_group(
    store: Any = None,
    *,
    path: str | None = None,
    zarr_format: Any = None,
    overwrite: bool = False,
    attributes: Any = None,
    storage_options: Any = None,
) -> ZarrGroup:
    """Create a group."""
    with translated("group"), config.settings():
        target = locate(store, path, "a", storage_options)
        format = by_name(config.default_format(zarr_format))
        location = Location(target.store, target.path, format)
        return ZarrGroup.adopt(
            make_group(location, with_text_keys(attributes), overwrite), target.given
        )


def create_hierarchy(*, store: Any, nodes: Any, overwrite: bool = False) -> Iterator[Any]:
    """Create arrays and groups by path, and yield each when it is stored."""
    with translated(), config.settings():
        target = locate(store, None, "a")
        place = ZarrPlace(target.store, target.path)
        for name, node in hierarchy.create_hierarchy(store=place, nodes=nodes, overwrite=overwrite):
            yield name, facade(node, target.given)


# Parameters and functions of older versions


def init_store(
    store: Any,
    shape: Any,
    *,
    compression: str | None = "blosc",
    compression_opts: Any = None,
    **options: Any,
) -> None:
    """Create an empty version 1 array in a store, as zarr-python 1 did."""
    compressor: dict[str, Any] | None = {"id": compression}
    if compression in (None, "none"):
        compressor = None
    elif isinstance(compression_opts, dict):
        compressor = {"id": compression, **compression_opts}
    elif compression_opts is not None:
        compressor = {"id": compression, "level": compression_opts}
    elif compression == "blosc":
        compressor = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}
    hierarchy.create_array(store, shape=shape, zarr_format=1, compressors=compressor, **options)
