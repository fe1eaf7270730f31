"""The installed zarr-python: its modules, its own objects, its configuration and codecs."""

from __future__ import annotations

import copy
import functools
import importlib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import codecs
from omnizarr import config as own_config
from omnizarr.errors import InvalidMetadata, MissingModule
from omnizarr.extension import PREFIX, Buffer, Named, data_types, to_named
from omnizarr.hierarchy.selection import ArrayConfig

# The environment variable by which child processes know that our names are in place.
IN_PLACE = "OMNIZARR_AS_ZARR"
# zarr-python's own objects by module and name, while ours are in their place.
replaced: dict[tuple[str, str], Any] = {}
# Code that makes coroutines which need an event loop.
_waiting: set[CodeType] = set()


def module(name: str) -> ModuleType:
    """Return a module of the installed zarr-python."""
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise MissingModule(
            f"{name} cannot be imported ({e}); zarr-python's names need zarr-python 3.1 or newer:"
            " pip install 'zarr>=3.1'"
        ) from e


def original(module_name: str, name: str) -> Any:
    """Return an object of zarr-python itself, also while ours is in its place."""
    key = (module_name, name)
    return replaced[key] if key in replaced else getattr(module(module_name), name)


def sync(awaitable: Any) -> Any:
    """Wait for a coroutine of zarr-python."""
    return module("zarr.core.sync").sync(awaitable)


def run_now(make: Any) -> Any:
    """Return the result of a coroutine that should never wait, without an event loop.

    `make` is a function without arguments that returns the coroutine. If it waits nevertheless, as
    those that store metadata do since zarr-python 3.4, it is closed, and another one runs in
    zarr-python's loop; from then on, all from the same place do.
    """
    if make.__code__ not in _waiting:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is no current event loop")
            warnings.filterwarnings("ignore", "coroutine .* was never awaited")
            awaitable = make()
            try:
                awaitable.send(None)
            except StopIteration as e:
                return e.value
            except RuntimeError:  # it asks for the running loop
                pass
            awaitable.close()
            del awaitable
        _waiting.add(make.__code__)
    return sync(make())


def data_type(dtype: Any, zarr_format: int) -> Any:
    """Return zarr-python's type for numbers, cached as its search is slow; others unchanged."""
    try:
        found = np.dtype(dtype)
    except TypeError:  # a name that only zarr-python knows, or nobody
        return dtype
    if found.kind not in "biufc" or (isinstance(dtype, str) and dtype.isalpha()):
        return dtype
    return _number_type(found, zarr_format)


@functools.cache
def _number_type(dtype: np.dtype[Any], zarr_format: int) -> Any:
    return module("zarr.dtype").parse_dtype(dtype, zarr_format=zarr_format)


@functools.cache
def _scratch_class() -> type:
    """Return the class of stores for metadata that are made but not stored.

    It has its own methods, since tests replace those of `MemoryStore`.
    """

    async def get(self: Any, key: str, *args: Any, **options: Any) -> Any:
        return self._store_dict.get(key)

    async def set(self: Any, key: str, value: Any, *args: Any, **options: Any) -> None:
        self._store_dict[key] = value

    methods = {"is_scratch": True, "get": get, "set": set}
    return type("ScratchStore", (module("zarr.storage").MemoryStore,), methods)


def scratch_store() -> Any:
    """Return an empty store of zarr-python in which `AsyncArray` saves nothing."""
    return _scratch_class()()


def forget() -> None:
    """Forget the objects that were replaced, and what was made of them."""
    replaced.clear()
    _scratch_class.cache_clear()
    _number_type.cache_clear()


def is_ours(value: Any) -> bool:
    """Return True for an object that is defined in this package."""
    return str(getattr(value, "__module__", "")).partition(".")[0] == "omnizarr"


# Configuration


def settings() -> Any:
    """Return ``zarr.config``."""
    return module("zarr.core.config").config


def default_format(given: Any = None) -> Any:
    """Return the given format, or else the default of the configuration."""
    return settings().get("default_zarr_format", 3) if given is None else given


def array_config(given: Any = None) -> Any:
    """Return the settings of a handle: those given, and the rest of the configuration."""
    return module("zarr.core.array_spec").parse_array_config(given)


def handle_config(config: Any, stored_order: str | None) -> ArrayConfig:
    """Return our settings of a handle; version 2 arrays are read in the order they are stored."""
    order: Any = stored_order or config.order
    reads = bool(getattr(config, "read_missing_chunks", True))
    return ArrayConfig(order, bool(config.write_empty_chunks), reads)


@contextmanager
def configured() -> Iterator[None]:
    """Use the number of threads of the configuration in the block."""
    threads = settings().get("threading.max_workers", None)
    if threads is None:
        yield
    else:
        with own_config.configure(threads=max(1, int(threads))):
            yield


UNUSED = ("synchronizer", "chunk_store", "cache_metadata", "cache_attrs", "meta_array")
_NAMES_HERE = {
    "chunk_shape": "chunks",
    "compressor": "compressors",
    "dimension_separator": "chunk_key_encoding",
    "zarr_version": "zarr_format",
}


def own_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert options of zarr-python, also of version 2, to options of `omnizarr.create_array`."""
    found = {name: value for name, value in options.items() if name not in UNUSED}
    for name, here in _NAMES_HERE.items():
        value = found.pop(name, None)
        if value is not None or (name == "compressor" and name in options):
            found.setdefault(here, value)
    keep, codec = found.pop("write_empty_chunks", None), found.pop("object_codec", None)
    if keep is not None:
        found["config"] = {"write_empty_chunks": keep, **(found.get("config") or {})}
    if codec is not None:
        filters = found.get("filters")
        found["filters"] = [codec, *(filters if isinstance(filters, list | tuple) else ())]
    return found


# Codecs that are registered with zarr-python and unknown here, run by zarr-python's classes

_KINDS: dict[str, str] = {
    "ArrayArrayCodec": "array->array",
    "ArrayBytesCodec": "array->bytes",
    "BytesBytesCodec": "bytes->bytes",
}


def find_codec(name: str) -> Any | None:
    """Return a factory for the codec that zarr-python registers under a name, or None."""
    if name.startswith(PREFIX):  # those of numcodecs are known here
        return None
    try:
        cls = module("zarr.registry").get_codec_class(name)
    except (KeyError, ValueError):  # it is unknown to zarr-python, too
        return None
    bases = module("zarr.abc.codec")
    kinds = [kind for base, kind in _KINDS.items() if issubclass(cls, getattr(bases, base))]
    return _Registered(name, cls, kinds[0]) if kinds else None


def codecs_to_zarr(given: Any, zarr_format: int) -> Any:
    """Return codecs as zarr-python takes them: ours as JSON or as objects of numcodecs."""
    if isinstance(given, (list, tuple)):
        return type(given)(codecs_to_zarr(codec, zarr_format) for codec in given)
    if not is_ours(type(given)):
        return given
    named = to_named(given, None)
    members = copy.deepcopy(dict(named.configuration))
    if zarr_format != 2:
        return {"name": named.name, "configuration": members}
    return module("numcodecs").get_codec({"id": named.name.removeprefix(PREFIX), **members})


@dataclass(frozen=True)
class _Registered:
    """A codec class of zarr-python; makes codecs from a configuration."""

    name: str
    cls: Any
    kind: str

    def bind(self, named: Named) -> Any:
        """Return the codec with that configuration."""
        document: dict[str, Any] = {"name": self.name}
        if named.configuration:
            document["configuration"] = dict(named.configuration)
        try:
            codec = self.cls.from_dict(document)
        except (TypeError, ValueError, KeyError) as e:
            raise InvalidMetadata(f"codec {self.name!r}: {e}") from e
        made = ZarrBytesCodec if self.kind == "bytes->bytes" else ZarrArrayCodec
        return made(self.name, codec, self.kind)


@dataclass(frozen=True)
class _Codec:
    """A codec of zarr-python, run on one chunk."""

    name: str
    codec: Any
    kind: str

    def _run(self, method: str, data: Any, spec: Any) -> Any:
        buffers = module("zarr.core.buffer.cpu")
        if isinstance(data, np.ndarray):
            given = buffers.NDBuffer.from_numpy_array(np.ascontiguousarray(data))
        else:
            given = buffers.Buffer.from_bytes(bytes(data))
        codec = self.codec.evolve_from_array_spec(spec)
        found = next(iter(sync(getattr(codec, method)([(given, spec)]))))
        return found.as_numpy_array() if hasattr(found, "as_ndarray_like") else found.to_bytes()


class ZarrArrayCodec(_Codec):
    """A codec of zarr-python that turns arrays into arrays or bytes."""

    def resolve(self, spec: codecs.Spec) -> codecs.Spec:
        """Return the shape, type and fill value after the codec."""
        given = _array_spec(spec)
        after = self.codec.evolve_from_array_spec(given).resolve_metadata(given)
        data_type = data_types.bind(data_types.describe(after.dtype.to_native_dtype()))
        return codecs.Spec(tuple(after.shape), data_type, data_type.scalar(after.fill_value))

    def encoded_size(self, spec: codecs.Spec) -> int | None:
        """Return None: it may vary."""
        return None

    def encode(self, array: npt.NDArray[Any], spec: codecs.Spec) -> Any:
        """Return the array or bytes to store."""
        return self._run("encode", array, _array_spec(spec))

    def decode(self, data: Any, spec: codecs.Spec) -> npt.NDArray[Any]:
        """Return the array that was encoded."""
        found: npt.NDArray[Any] = self._run("decode", data, _array_spec(spec))
        return found.astype(spec.data_type.dtype, copy=False).reshape(spec.shape)


class ZarrBytesCodec(_Codec):
    """A codec of zarr-python that turns bytes into bytes."""

    def encoded_size(self, size: int) -> int | None:
        """Return None: it may vary."""
        return None

    def encode(self, data: Buffer) -> Buffer:
        """Return the bytes to store."""
        found: bytes = self._run("encode", data, _bytes_spec(len(data)))
        return found

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the bytes that were encoded."""
        length = len(data) if size is None else size
        found: bytes = self._run("decode", data, _bytes_spec(length))
        return found


def _array_spec(spec: codecs.Spec) -> Any:
    """Return zarr-python's description of a chunk."""
    dtype = module("zarr.dtype").parse_dtype(spec.data_type.dtype, zarr_format=3)
    return module("zarr.core.array_spec").ArraySpec(
        shape=spec.shape,
        dtype=dtype,
        fill_value=spec.fill[()],
        config=array_config(),
        prototype=module("zarr.core.buffer").default_buffer_prototype(),
    )


def _bytes_spec(size: int) -> Any:
    data_type = data_types.bind(data_types.describe("u1"))
    return _array_spec(codecs.Spec((size,), data_type, data_type.scalar(0)))
