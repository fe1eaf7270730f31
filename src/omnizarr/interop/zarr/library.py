"""The installed zarr-python: its modules, objects, configuration, codecs and errors."""

from __future__ import annotations

import copy
import functools
import importlib
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ContextDecorator, contextmanager
from dataclasses import dataclass
from json import JSONDecodeError
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import codecs, errors
from omnizarr import config as own_config
from omnizarr.errors import InvalidMetadata, MissingModule
from omnizarr.extension import PREFIX, Buffer, Named, data_types, specify

# The environment variable by which child processes know that our names are in place.
IN_PLACE = "OMNIZARR_AS_ZARR"
# zarr-python's own objects by module and name, while ours are in their place.
replaced: dict[tuple[str, str], Any] = {}


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

    return type("ScratchStore", (module("zarr.storage").MemoryStore,), {"get": get, "set": set})


def scratch_store() -> Any:
    """Return an empty store of zarr-python."""
    return _scratch_class()()


def forget() -> None:
    """Forget the replaced objects, and everything made of them."""
    replaced.clear()
    _scratch_class.cache_clear()
    _number_type.cache_clear()


def is_ours(value: Any) -> bool:
    """Return True for an object that is defined in this package."""
    return str(getattr(value, "__module__", "")).partition(".")[0] == "omnizarr"


def settings() -> Any:
    """Return ``zarr.config``."""
    return module("zarr.core.config").config


def default_format(given: Any = None) -> Any:
    """Return the given format, or else the default of the configuration."""
    return settings().get("default_zarr_format", 3) if given is None else given


def array_config(given: Any = None) -> Any:
    """Return the settings of a handle: those given, and the rest of the configuration."""
    return module("zarr.core.array_spec").parse_array_config(given)


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
}


def own_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert options of zarr-python to options of `omnizarr.create_array`."""
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


def codecs_to_zarr(given: Any, zarr_format: int) -> Any:
    """Return codecs as zarr-python takes them: ours as JSON or as objects of numcodecs."""
    if isinstance(given, (list, tuple)):
        return type(given)(codecs_to_zarr(codec, zarr_format) for codec in given)
    if not is_ours(type(given)):
        return given
    named = specify.to_named(given, None)
    members = copy.deepcopy(dict(named.configuration))
    if zarr_format != 2:
        return {"name": named.name, "configuration": members}
    return module("numcodecs").get_codec({"id": named.name.removeprefix(PREFIX), **members})


_KINDS = {
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
    return RegisteredCodec(name, cls, kinds[0]) if kinds else None


@dataclass(frozen=True)
class RegisteredCodec:
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
class ZarrArrayCodec:
    """A codec of zarr-python that turns an array into an array or bytes, run on one chunk."""

    name: str
    codec: Any
    kind: str

    def resolve(self, spec: codecs.Spec) -> codecs.Spec:
        """Return the shape, type and fill value after the codec."""
        given = _array_spec(spec)
        after = self.codec.evolve_from_array_spec(given).resolve_metadata(given)
        data_type = data_types.bind(data_types.describe(after.dtype.to_native_dtype()))
        return codecs.Spec(tuple(after.shape), data_type, data_type.scalar(after.fill_value))

    def encoded_size(self, spec: Any) -> int | None:
        """Return None: it may vary."""
        return None

    def encode(self, array: npt.NDArray[Any], spec: codecs.Spec) -> Any:
        """Return the array or bytes to store."""
        return self._run("encode", array, spec)

    def decode(self, data: Any, spec: codecs.Spec) -> npt.NDArray[Any]:
        """Return the array that was encoded."""
        found: npt.NDArray[Any] = self._run("decode", data, spec)
        return found.astype(spec.data_type.dtype, copy=False).reshape(spec.shape)

    def _run(self, method: str, data: Any, spec: codecs.Spec) -> Any:
        buffers, given = module("zarr.core.buffer.cpu"), _array_spec(spec)
        if isinstance(data, np.ndarray):
            buffer = buffers.NDBuffer.from_numpy_array(np.ascontiguousarray(data))
        else:
            buffer = buffers.Buffer.from_bytes(bytes(data))
        codec = self.codec.evolve_from_array_spec(given)
        found = next(iter(sync(getattr(codec, method)([(buffer, given)]))))
        return found.as_numpy_array() if hasattr(found, "as_ndarray_like") else found.to_bytes()


class ZarrBytesCodec(ZarrArrayCodec):
    """A codec of zarr-python that turns bytes into bytes."""

    def encode(self, data: Buffer) -> Buffer:  # type: ignore[override]
        """Return the bytes to store."""
        found: bytes = self._run("encode", data, _bytes_spec(len(data)))
        return found

    def decode(self, data: Buffer, size: int | None) -> Buffer:  # type: ignore[override]
        """Return the bytes that were encoded."""
        found: bytes = self._run("decode", data, _bytes_spec(len(data) if size is None else size))
        return found


def _array_spec(spec: codecs.Spec) -> Any:
    dtype = module("zarr.dtype").parse_dtype(spec.data_type.dtype, zarr_format=3)
    return module("zarr.core.array_spec").ArraySpec(
        shape=spec.shape,
        dtype=dtype,
        fill_value=spec.fill[()],
        config=array_config(),
        prototype=module("zarr.core.buffer").default_buffer_prototype(),
    )


def _bytes_spec(size: int) -> codecs.Spec:
    data_type = data_types.bind(data_types.describe("u1"))
    return codecs.Spec((size,), data_type, data_type.scalar(0))


# Errors. A program that catches ``zarr.errors.ContainsGroupError`` catches ours too: each error
# that leaves arrays, groups and functions is of a class made from both.

# Their classes for each of ours. Which node was wanted, or exists, selects among those below.
_NAMES: dict[type[errors.OmnizarrError], tuple[str, ...]] = {
    errors.MissingChunk: ("ChunkNotFoundError",),
    errors.ChunkError: ("BaseZarrError",),
    errors.SelectionError: (
        "BoundsCheckError",
        "NegativeStepError",
        "VindexInvalidSelectionError",
        "ArrayIndexError",
    ),
    errors.WrongNode: ("NodeTypeValidationError",),
    errors.InvalidName: ("MetadataValidationError",),
    errors.InvalidMetadata: ("MetadataValidationError",),
    errors.UnknownExtension: ("UnknownCodecError",),
    errors.NodeNotFound: ("NodeNotFoundError",),
    errors.NodeExists: ("BaseZarrError",),
    errors.OmnizarrError: (),
}
_BY_KIND: dict[tuple[type[errors.OmnizarrError], str], tuple[str, ...]] = {
    (errors.NodeNotFound, "array"): ("ArrayNotFoundError",),
    (errors.NodeNotFound, "group"): ("GroupNotFoundError",),
    (errors.NodeExists, "array"): ("ContainsArrayError",),
    (errors.NodeExists, "group"): ("ContainsGroupError",),
    (errors.WrongNode, "array"): ("NodeTypeValidationError", "ContainsGroupError"),
    (errors.WrongNode, "group"): ("NodeTypeValidationError", "ContainsArrayError"),
}


class translated(ContextDecorator):
    """Translate the errors of a block or function; `kind` is of the node in question."""

    def __init__(self, kind: str = "") -> None:
        self.kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, errors.OmnizarrError):
            new = translate(error, self.kind)
            if new is not error:
                raise new from new.__cause__


def translate(error: errors.OmnizarrError, kind: str = "") -> BaseException:
    """Return the error as one that is also zarr-python's.

    An error of a store whose class excludes that is returned itself, with a note.
    """
    ours: Any = type(error)
    through = _let_through(error)
    also: Any = None if through is None else type(through)
    made = _class(ours, getattr(error, "kind", "") or kind, also)
    if made is ours:
        return error
    if through is not None and made is None:
        through.add_note(str(error))
        return through
    new: errors.OmnizarrError = made(*error.args)
    new.args = error.args
    vars(new).update(vars(error))
    if isinstance(through, JSONDecodeError):
        vars(new).update(vars(through))
    new.__cause__, new.__suppress_context__ = error.__cause__, True
    return new.with_traceback(error.__traceback__)


def _let_through(error: errors.OmnizarrError) -> BaseException | None:
    """Return the error that zarr-python would have raised, if there is one below ours.

    Those of Python which programs catch, and those of the package that a store or codec is from.
    """
    if isinstance(error, errors.InvalidMetadata) and isinstance(error.__context__, JSONDecodeError):
        return error.__context__
    cause: BaseException | None = error
    while isinstance(cause, errors.OmnizarrError):
        cause = cause.__cause__
    if isinstance(error, errors.StoreError | errors.ChunkError) and isinstance(cause, Exception):
        known = isinstance(cause, FileNotFoundError | PermissionError)
        if known or type(cause).__module__ != "builtins":
            return cause
    while cause is not None and not isinstance(cause, NotImplementedError):
        cause = cause.__cause__
    return cause  # a store of zarr-python has not got something


@functools.cache
def _class(ours: Any, kind: str, also: type[Exception] | None = None) -> Any:
    """Return a class derived from our error class, from zarr-python's, and from `also`.

    None if there can be no such class.
    """
    if getattr(ours, "_is_both", False):
        return ours
    base = next(cls for cls in ours.__mro__ if cls in _NAMES)
    names = _BY_KIND.get((base, kind), _NAMES[base])
    theirs = module("zarr.errors")
    found = tuple(getattr(theirs, name) for name in names if hasattr(theirs, name))
    # One that is a base of another would break the order of bases.
    bases = tuple(c for c in found if not any(o is not c and issubclass(o, c) for o in found))
    if also is not None:
        bases = (*bases, also)
    if not bases:
        return ours
    # Programs also read the name, so it is the name of the class that zarr-python would raise.
    name = also or (bases[0] if len(bases) == 1 else ours)
    body = {
        "__module__": name.__module__,
        "__init__": Exception.__init__,
        "__reduce__": lambda self: (_rebuilt, (ours, kind, also, self.args, vars(self))),
        "_is_both": True,
    }
    try:
        return type(name.__name__, (ours, *bases), body)
    except TypeError:  # classes of C that exclude each other
        return None


def _rebuilt(ours: Any, kind: str, also: Any, args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    new = _class(ours, kind, also)(*args)
    new.args = args
    vars(new).update(state)
    return new


def translate_methods(cls: type, names: tuple[str, ...], kind: str = "") -> None:
    """Make inherited methods of a class translate their errors."""
    for name in names:
        setattr(cls, name, translated(kind)(getattr(cls, name)))


def warn(message: str, kind: str) -> None:
    """Issue a warning of zarr-python's class for the line of the program."""
    category = getattr(module("zarr.errors"), kind)
    level, frame = 2, sys._getframe(1)
    ours = ("omnizarr", "contextlib", "functools")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(ours):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
