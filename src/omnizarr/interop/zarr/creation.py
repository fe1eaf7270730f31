"""Create arrays and groups as zarr-python does.

zarr-python makes the metadata of new arrays from their options (`describe`), so that they are what
it would have stored; omnizarr stores them and everything else. In versions of the format that
zarr-python does not have, options and defaults are omnizarr's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import omnizarr
from omnizarr import Array, errors, extension
from omnizarr.bulk.tiles import item_bytes, stored_axes
from omnizarr.errors import InvalidArgument, InvalidMetadata
from omnizarr.extension import ArrayModel, Location, boxes, build
from omnizarr.interop.zarr import library
from omnizarr.interop.zarr.arrays import ZarrArray
from omnizarr.interop.zarr.groups import ZarrGroup
from omnizarr.interop.zarr.library import configured, default_format, own_options, translated, warn
from omnizarr.interop.zarr.nodes import facade, with_text_keys
from omnizarr.interop.zarr.stores import ZarrPlace, ZarrTarget, locate

__all__ = [
    "array", "create", "create_array", "create_group", "create_hierarchy", "empty", "empty_like",
    "from_array", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like",
]  # fmt: skip
COPY_BYTES = 2**26  # copied at a time, unless a chunk is larger
# The options of an array from data that is not like them.
_AUTO: dict[str, Any] = {
    **dict.fromkeys(("chunks", "filters", "compressors", "serializer"), "auto"),
    "shards": None,
}
_CODECS = ("compressors", "compressor", "filters", "serializer", "codecs", "object_codec")
# Options that are not described in metadata.
_ABOUT_STORING = ("overwrite", "config", "write_data", "write_empty_chunks", "data")


@translated()
def one_version(zarr_format: Any, zarr_version: Any) -> Any:
    """Return the format; `zarr_version` is a deprecated name for it."""
    known = (None, *extension.NAMES, *(int(name) for name in extension.NAMES if name.isdigit()))
    if zarr_format not in known:
        raise InvalidMetadata(
            f"Invalid value for 'zarr_format'. Expected '2, 3, or None'. Got '{zarr_format}'."
        )
    if zarr_version is None:
        return zarr_format
    if zarr_format not in (None, zarr_version):
        raise ValueError(
            f"zarr_format {zarr_format} does not match zarr_version {zarr_version}, please only set"
            " one"
        )
    warn("zarr_version is deprecated, use zarr_format", "ZarrDeprecationWarning")
    return zarr_version


def warn_of_unused(options: dict[str, Any]) -> None:
    """Warn of options without effect; raise for unknown ones."""
    for name, value in options.items():
        if name not in library.UNUSED:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
        if value is not None:
            warn(f"{name} is not yet implemented", "ZarrRuntimeWarning")


def describe(function: str, options: dict[str, Any]) -> Any:
    """Return the metadata that zarr-python makes for a new array from options of a function."""
    make = library.original("zarr.api.asynchronous", function)
    options = {**options, "store": library.scratch_store(), "overwrite": True}
    if isinstance(options.get("dtype"), (str, np.dtype)):
        options["dtype"] = library.data_type(options["dtype"], options.get("zarr_format") or 3)
    return library.sync(make(**options)).metadata


def _store_new(
    target: ZarrTarget, function: str, options: dict[str, Any], data: Any, overwrite: bool
) -> ZarrArray:
    """Store a new array that options of a function of zarr-python describe."""
    runtime, metadata = library.array_config(options.get("config")), None
    keep = options.get("write_empty_chunks")
    if keep is not None:
        runtime = replace(runtime, write_empty_chunks=keep)
    version = options.get("zarr_format") or 3
    if version in (2, 3):
        options = {
            name: library.codecs_to_zarr(value, version) if name in _CODECS else value
            for name, value in options.items()
        }
        metadata = describe(function, options)
        node, _ = extension.node_from_description(target.path, metadata)
    else:
        given: Any = own_options({k: v for k, v in options.items() if k not in _ABOUT_STORING})
        source = extension.as_source(options["data"]) if options.get("data") is not None else None
        shape: Any = given.pop("shape", None)
        shape = getattr(source, "shape", None) if shape is None else shape
        dtype = given.pop("dtype", None) or getattr(source, "dtype", None)
        del given["zarr_format"]
        node = extension.array_model(extension.by_name(version), shape, dtype, given)
    if not isinstance(node, ArrayModel):
        raise InvalidArgument("the options describe no array")
    location = Location(target.store, target.path, extension.by_name(version))
    with omnizarr.configure(write_empty_chunks=bool(runtime.write_empty_chunks)):
        if isinstance(data, Array) or hasattr(data, "async_array"):  # it may not fit into memory
            operation = "copying an array"
            with build(location, overwrite=overwrite, operation=operation, implied=True) as staged:
                stored = extension.store_array(staged, node, None, False)
                for box in boxes.cut(stored_axes(stored), COPY_BYTES // item_bytes(stored.dtype)):
                    stored[box] = data[box]
            stored = Array.at(location, extension.model_of(stored))
        else:
            values = None if data is None else extension.as_source(data)
            stored = extension.store_array(location, node, values, overwrite)
    for codec in getattr(metadata, "codecs", ()):
        if getattr(codec, "subchunk_write_order", None) == "colexicographic":
            errors.warn(
                "subchunk_write_order='colexicographic' has no effect here: chunks in a shard are"
                " stored in the order of their index, the last axis first"
            )
    # The metadata have what is not stored, such as the order in which chunks are written.
    described = None if metadata is None else (extension.model_of(stored), None, metadata)
    return ZarrArray.adopt(stored, target.given, _runtime=runtime, _described=described)


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
    options["zarr_format"] = default_format(zarr_format)
    data = options.get("data")
    if data is not None:
        data = options["data"] = _source(data)
        check = library.original("zarr.core.array", "_parse_data_params")
        check(data=data, shape=options.pop("shape", None), dtype=options.pop("dtype", None))
        function, options = "from_array", {**_AUTO, **options, "write_data": False}
    with translated("array"), configured():
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
    """Create an array from another; options that are left out are taken from `data`."""
    with translated("array"), configured():
        target = locate(store, options.pop("path", name), "a", storage_options)
        source = _source(data)
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
    options |= {"shape": shape, "zarr_format": default_format(wanted)}
    with translated("array"), configured():
        target = locate(store, path, mode, storage_options)
        return _store_new(target, "create", options, data, overwrite)


def check_storable(data: Any, zarr_format: Any) -> None:
    """Raise if zarr-python cannot describe an array that holds `data`."""
    wanted = default_format(zarr_format)
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


def options_like(a: Any, options: dict[str, Any], *, fill: bool = False) -> dict[str, Any]:
    """Return the options of an array like another one, with `fill` also of its fill value."""
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
        if fill:
            found["fill_value"] = source.fill_value
        if wanted == source.zarr_format and source.zarr_format == 2:
            found |= {
                "order": source.order,
                "compressor": next(iter(source.compressors), None),
                "filters": source.filters or None,
            }
        elif wanted == source.zarr_format and source._theirs:
            found["codecs"] = source.metadata.codecs
            found["chunks"] = source.shards or source.chunks
    return {**found, **options}


def full(shape: Any, fill_value: Any, **options: Any) -> ZarrArray:
    """Create an array of one value."""
    return create(shape, **{**options, "fill_value": fill_value})


def full_like(a: Any, **options: Any) -> ZarrArray:
    """Create an array of one value with the shape, type and chunks of another."""
    if options.get("fill_value", 0) is None:
        del options["fill_value"]
    return full(**options_like(a, options, fill=True))


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
    omnizarr.create_array(store, shape=shape, zarr_format=1, compressors=compressor, **options)


def _filled(name: str, what: str, **fixed: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the functions that create an array of some values, by its shape and like another."""

    def make(shape: Any, **options: Any) -> ZarrArray:
        return create(shape, **{**options, **fixed})

    def make_like(a: Any, **options: Any) -> ZarrArray:
        return make(**options_like(a, options, fill=not fixed))

    for function, like in ((make, ""), (make_like, " with the shape, type and chunks of another")):
        function.__name__ = function.__qualname__ = f"{name}_like" if like else name
        function.__doc__ = f"Create an array of {what}{like}."
    return make, make_like


empty, empty_like = _filled("empty", "arbitrary values, which are the fill value")
zeros, zeros_like = _filled("zeros", "zeros", fill_value=0)
ones, ones_like = _filled("ones", "ones", fill_value=1)


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
    with translated("group"), configured():
        target = locate(store, path, "a", storage_options)
        return make_group_at(target, zarr_format, attributes, overwrite)


def make_group_at(
    target: ZarrTarget, zarr_format: Any, attributes: Any, overwrite: bool
) -> ZarrGroup:
    """Create a group at a place."""
    location = Location(target.store, target.path, extension.by_name(default_format(zarr_format)))
    made = extension.make_group(location, with_text_keys(attributes), overwrite)
    return ZarrGroup.adopt(made, target.given)


def create_hierarchy(*, store: Any, nodes: Any, overwrite: bool = False) -> Iterator[Any]:
    """Create arrays and groups by path, and yield each when it is stored."""
    with translated(), configured():
        target = locate(store, None, "a")
        place = ZarrPlace(target.store, target.path)
        for name, node in omnizarr.create_hierarchy(store=place, nodes=nodes, overwrite=overwrite):
            yield name, facade(node, target.given)
