"""Arrays as zarr-python has them, read and written by omnizarr."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np

from omnizarr import Array
from omnizarr.errors import OmnizarrError, SelectionError
from omnizarr.extension import Named, bind_codec, memory_order, specify, stored_keys
from omnizarr.interop.zarr import library, nodes
from omnizarr.interop.zarr.library import array_config, translate_methods, translated, warn

_REQUIRED: Any = object()  # the value may follow a mask that is given by its name


def _chosen(self: Any, by: str, selection: Any, names: Any) -> tuple[Any, Any]:
    """Return what is indexed for a selection, and the index with the names of fields, if any."""
    items = selection if isinstance(selection, tuple) else (selection,)
    for item in items if not by else ():
        if not (isinstance(item, slice) or item is Ellipsis or np.ndim(item) == 0):
            raise SelectionError(
                f"a basic selection has integers, slices and '...', got {type(item).__name__};"
                " use oindex, vindex or brackets for lists and masks"
            )
    if names is not None and names != []:
        names = [names] if isinstance(names, str) else list(names)
        selection = (*items, *names) if len(names) == 1 else (*items, names)
    return getattr(self, by) if by else self, selection


def _getter(by: str, what: str) -> Any:
    @translated("array")
    def get(
        self: Any,
        selection: Any = ...,
        *,
        out: Any = None,
        fields: Any = None,
        prototype: Any = None,
        mask: Any = None,
    ) -> Any:
        indexed, index = _chosen(self, by, selection if mask is None else mask, fields)
        if out is None:
            return indexed[index]
        out[...] = indexed[index]
        return out

    get.__doc__ = f"Return elements by {what}."
    return get


def _setter(by: str, what: str) -> Any:
    @translated("array")
    def set(
        self: Any,
        selection: Any = ...,
        value: Any = _REQUIRED,
        *,
        fields: Any = None,
        prototype: Any = None,
        mask: Any = None,
    ) -> None:
        if value is _REQUIRED:
            raise TypeError("the values to store are missing")
        indexed, index = _chosen(self, by, selection if mask is None else mask, fields)
        indexed[index] = value

    set.__doc__ = f"Store values by {what}."
    return set


class ZarrArray(nodes.ZarrNode, Array):
    """An N-dimensional array of chunks in a store, with the interface of zarr-python's."""

    _runtime: Any = None  # zarr-python's settings of this handle

    def __init__(self, _async_array: Any, *args: Any, **options: Any) -> None:
        """Take over an `AsyncArray`, or open the array at a store and path."""
        blocking = getattr(_async_array, "blocking", None)
        if blocking is None and hasattr(_async_array, "store_path"):  # of zarr-python itself
            blocking = ZarrArray.described(_async_array.metadata, _async_array.store_path)
            blocking._use(_async_array.config)
        if blocking is None:
            Array.__init__(self, _async_array, *args, **options)
        else:
            vars(self).update(vars(blocking))
        self._set_up()

    def _set_up(self) -> None:
        self._use(array_config() if self._runtime is None else self._runtime)

    def _use(self, runtime: Any) -> None:
        """Use zarr-python's settings; version 2 arrays are read in the order they are stored."""
        self._runtime = runtime
        self._configure(
            replace(
                self._config,
                order=self._stored_order or runtime.order,
                write_empty_chunks=bool(runtime.write_empty_chunks),
                read_missing_chunks=bool(getattr(runtime, "read_missing_chunks", True)),
            )
        )

    @property
    def _stored_order(self) -> Any:
        return memory_order(self._model) if self.zarr_format == 2 else None

    @property
    def async_array(self) -> Any:
        """The array with awaitable methods."""
        found = vars(self).get("_async")
        if found is None:
            found = self._async = nodes.later("asynchronous:ZarrAsyncArray")(blocking=self)
        return found

    _async_array = async_array

    def _codecs(self, part: str, kind: str) -> tuple[Any, ...]:
        """Return the codecs of one part of the pipeline; for shards, of the inner chunks."""
        found = self.metadata
        if not self._theirs:
            return own_codecs(self._model, part)
        if hasattr(found, "compressor"):  # of version 2
            compressors = () if found.compressor is None else (found.compressor,)
            old = {"filters": tuple(found.filters or ()), "compressors": compressors}
            return old.get(part, ())
        codecs = found.codecs
        if len(codecs) == 1 and isinstance(codecs[0], library.module("zarr.codecs").ShardingCodec):
            codecs = codecs[0].codecs
        wanted = getattr(library.module("zarr.abc.codec"), kind)
        return tuple(codec for codec in codecs if isinstance(codec, wanted))

    @property
    def filters(self) -> tuple[Any, ...]:
        """The codecs on arrays: objects of numcodecs in version 2, else of `zarr.codecs`."""
        return self._codecs("filters", "ArrayArrayCodec")

    @property
    def serializer(self) -> Any:
        """The codec from array to bytes; None in version 2."""
        return next(iter(self._codecs("serializer", "ArrayBytesCodec")), None)

    @property
    def compressors(self) -> tuple[Any, ...]:
        """The codecs on bytes: objects of numcodecs in version 2, else of `zarr.codecs`."""
        return self._codecs("compressors", "BytesBytesCodec")

    @property
    def codecs(self) -> Any:
        """Not offered: programs that look for it do not expect it at arrays of zarr-python."""
        raise AttributeError("use metadata.codecs, or filters, serializer and compressors")

    @property
    def compressor(self) -> Any:
        """The compressor of a version 2 array; deprecated in zarr-python."""
        warn("Use Array.compressors instead.", "ZarrDeprecationWarning")
        if self._stored_order is None:  # the words of zarr-python
            raise TypeError("`compressor` is not available for Zarr format 3 arrays.")
        return next(iter(self.compressors), None)

    @property
    def order(self) -> str:
        """The order of stored elements in version 2, else of values in memory."""
        return str(self._stored_order or self._runtime.order)

    @property
    def config(self) -> Any:
        """The settings for reading and writing through this handle."""
        return self._runtime

    def with_config(self, config: Any) -> Self:
        """Return another handle of the array with other settings."""
        handle = type(self).adopt(self)
        if isinstance(config, dict):
            now = {f.name: getattr(self._runtime, f.name) for f in fields(self._runtime)}
            config = {**now, **config}
        handle._use(array_config(config))
        return handle

    @property
    def fill_value(self) -> Any:
        """The value of elements without a chunk."""
        return self.metadata.fill_value if self._theirs else super().fill_value

    @property
    def chunks(self) -> tuple[Any, ...]:
        """The shape of a chunk; for a sharded array, of those inside its shards."""
        found = super().chunks
        if 0 in self.shape and self._theirs:  # where the metadata may have chunks of length 0
            found = getattr(self.metadata, "chunks", found)
        return found

    def __bool__(self) -> bool:
        return True  # also of arrays without elements, as in zarr-python

    @translated("array")
    def __getitem__(self, selection: Any) -> Any:
        return self._as_array(super().__getitem__(selection))

    @translated("array")
    def _read(self, *args: Any, **options: Any) -> Any:
        return self._as_array(super()._read(*args, **options))

    def _as_array(self, values: Any) -> Any:
        """Return single elements as arrays without axes, unless the array itself has none."""
        if isinstance(values, np.ndarray) or not self.shape:
            return values
        dtype = values.dtype if isinstance(values, np.void) else self.dtype
        found = np.empty((), dtype)
        found[()] = values
        return found

    get_basic_selection = _getter("", "integers and slices")
    set_basic_selection = _setter("", "integers and slices")
    get_orthogonal_selection = _getter("oindex", "a list, mask, slice or integer for each axis")
    set_orthogonal_selection = _setter("oindex", "a list, mask, slice or integer for each axis")
    get_coordinate_selection = _getter("vindex", "lists of positions, one for each axis")
    set_coordinate_selection = _setter("vindex", "lists of positions, one for each axis")
    get_mask_selection = _getter("vindex", "a mask of the whole shape")
    set_mask_selection = _setter("vindex", "a mask of the whole shape")
    get_block_selection = _getter("blocks", "the coordinates of chunks in the grid")
    set_block_selection = _setter("blocks", "the coordinates of chunks in the grid")

    @translated()
    def resize(self, *new_shape: Any, outside: Any = "erase-chunks", **named: Any) -> None:
        """Change the shape; chunks outside a smaller shape are erased, as zarr-python does."""
        given = named.pop("new_shape", None)
        if named:
            raise TypeError(f"resize() got an unexpected keyword argument {next(iter(named))!r}")
        super().resize(*((given,) if given is not None else new_shape), outside=outside)

    def _check_names(self, attributes: dict[str, Any]) -> None:
        """Accept any names of dimensions in attributes, as zarr-python does."""

    @property
    def read_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """The lengths of the chunks along each axis, cut at the end of the array."""
        if self.shards is None:
            return self.write_chunk_sizes
        pairs = zip(self.shape, super().chunks, strict=True)
        return tuple(tuple(min(c, n - i) for i in range(0, n, c)) for n, c in pairs)

    @property
    def _nshards(self) -> int:
        return math.prod(self._bound.grid.shape)

    @property
    def _nshards_initialized(self) -> int:
        return sum(1 for _ in stored_keys(self._data))

    @property
    def nchunks_initialized(self) -> int:
        """The number of chunks that are stored, or that are in a stored shard."""
        if self.shards is None:
            return super().nchunks_initialized
        axes, chunks = self._bound.grid.axes, self.chunks
        return sum(
            math.prod(int(a.size(k)) // n for a, k, n in zip(axes, coords, chunks, strict=True))
            for coords, _ in stored_keys(self._data)
        )

    @classmethod
    def open(cls, store: Any, zarr_format: Any = None, *, config: Any = None) -> Self:
        """Open the array at a store or store path."""
        open_array = nodes.later("opening:open_array")
        found: Self = open_array(store, zarr_format=zarr_format, config=config)
        return found

    @classmethod
    def _create(cls, store: Any, *, shape: Any, **options: Any) -> Self:
        made: Self = nodes.later("creation:create")(shape, store=store, **options)
        return made

    @classmethod
    def from_dict(cls, store_path: Any, data: Any) -> Self:
        """Return the array that metadata describe, without reading any."""
        return cls.described(data, store_path)

    @property
    def info(self) -> Any:
        """A summary: shape, chunks, codecs."""
        return self._info()

    def info_complete(self) -> Any:
        """Return the summary with the number and bytes of stored chunks."""
        return self._info(self._nshards_initialized, self.nbytes_stored())

    def _info(self, count_chunks: int | None = None, count_bytes: int | None = None) -> Any:
        return library.module("zarr.core._info").ArrayInfo(
            _zarr_format=self.zarr_format,
            _data_type=self._zdtype,
            _fill_value=self.fill_value,
            _shape=self.shape,
            _order=self.order,
            _shard_shape="<variable>" if _is_variable(self.shards) else self.shards,
            _chunk_shape=None if _is_variable(self.chunks) else self.chunks,
            _read_only=self.read_only,
            _compressors=self.compressors,
            _filters=self.filters,
            _serializer=self.serializer,
            _store_type=type(self.store).__name__,
            _count_bytes=self.nbytes,
            _count_bytes_stored=count_bytes,
            _count_chunks_initialized=count_chunks,
        )

    @property
    def _zdtype(self) -> Any:
        """The data type of zarr-python, or the NumPy type if it has none."""
        return self.metadata.dtype if self._theirs else self.dtype

    def __repr__(self) -> str:
        return f"<Array {self.store_path} shape={self.shape} dtype={self.dtype}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "runtime": self._runtime}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._runtime = state["runtime"]
        super().__setstate__(state)


def _of_zarr_python(name: str) -> property:
    """Return the attribute that an array of zarr-python with the same metadata has."""

    def get(self: Any) -> Any:
        kind = library.module("zarr.core.array").AsyncArray
        return getattr(kind(metadata=self.metadata, store_path=self.store_path), name)

    return property(get)


# zarr-python's own tests, and those of packages that build on it, use these private names.
for _name in (
    *("_chunk_grid", "_chunk_grid_shape", "_shard_grid_shape", "_save_metadata"),
    *("_iter_chunk_coords", "_iter_shard_coords", "_iter_shard_keys"),
    *("_iter_chunk_regions", "_iter_shard_regions"),
):
    setattr(ZarrArray, _name, _of_zarr_python(_name))
ZarrArray.__name__ = "Array"  # as programs for zarr-python read it
translate_methods(ZarrArray, ("__setitem__", "read", "append", "_write", "refresh"), "array")


def own_codecs(model: Any, part: str) -> tuple[Any, ...]:
    """Return the codecs of omnizarr in one part of a pipeline, by name where they are unknown."""
    found = getattr(specify.pipeline(model), part)
    several = [found] if isinstance(found, Named) else [*(found or ())]
    for number, codec in enumerate(several):
        with suppress(OmnizarrError):
            several[number] = bind_codec(codec, "codecs")
    return tuple(several)


def _is_variable(shape: Any) -> bool:
    """Return True for the lengths along each axis of a rectilinear grid."""
    return any(isinstance(n, tuple) for n in shape or ())
