"""Options of new arrays, and the model that they describe.

The options are declared once, as typed dictionaries; ``inspect.signature``, ``help`` and
completion show them as keywords.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, TypedDict, TypeVar

import numpy as np

from omnizarr import config, data_types, registry
from omnizarr.codecs.specify import all_named, is_by_name, kind, to_named, with_bytes
from omnizarr.concurrency.cache import Cache
from omnizarr.data_types import DataType
from omnizarr.engine import Missing
from omnizarr.errors import CannotExpress, InvalidArgument, WrongType, did_you_mean
from omnizarr.formats import Format
from omnizarr.formats.codec_names import VLEN
from omnizarr.formats.format import check_attributes
from omnizarr.hierarchy.attributes import json_attributes
from omnizarr.hierarchy.chunk_shapes import AUTO, chunk_grid, shard_options, shard_shape
from omnizarr.model import ArrayModel, FillValue, Named
from omnizarr.model.node import with_defaults

# Further parameters of functions with options, for suggestions in messages.
_PARAMETERS = (
    *("shape", "dtype", "data", "mode", "kind", "overwrite", "path", "zarr_format"),
    "storage_options",
)
_LITTLE = {"endian": "little"}

_models: Cache[Hashable, ArrayModel] = Cache(64)


class ArrayOptions(TypedDict, total=False):
    """Options of every function that creates an array.

    Attributes:
        chunks: The shape of a chunk, whole along axes that are left out; an integer for all axes;
            ``"auto"`` (about 1 MiB); a size such as ``"4MB"``; False for one chunk; a list of lists
            of lengths for a rectilinear grid (version 3).
        shards: Versions 3 and 3-draft: store the chunks in shards of this shape, a multiple of the
            chunk shape; a size such as ``"100MB"``, or an integer for all axes. In version 3 also
            ``{"shape": …, "index_location": "start"}``, for the index in front of the chunks, and a
            list of lists of lengths for shards in a rectilinear grid.
        fill_value: The value of elements that were never written. The default is zero, and for
            times in versions 2 and 3 "not a time". None leaves it undefined in versions 1 and 2.
        codecs: The whole list of codecs, instead of the next three options.
        filters: Codecs on arrays: objects, names or JSON; None for none. The default of this and
            of the next two is the setting `codecs`.
        serializer: The codec from array to bytes.
        compressors: Codecs on bytes; None for none.
        order: ``"C"`` or ``"F"``: the order of items inside a chunk.
        dimension_names: A name, or None, for every axis.
        attributes: User attributes.
        chunk_key_encoding: ``"/"`` or ``"."`` between the indices in chunk keys, or the encoding's
            JSON, or its name and separator.
        config: A mapping, ``{"write_empty_chunks": …, "order": …, "read_missing_chunks": …}``; this
            `order` applies to values in memory. If `read_missing_chunks` is
            False, reading a chunk that the store does not have raises `MissingChunk`.
        fallback: The draft: names of types that a reader without this one may use instead.
        storage_transformers: The draft: transformers between the array and its store, such as
            ``storage_transformers.indexed_shards([2, 2])``, or their JSON.
    """

    chunks: Any
    shards: Any
    fill_value: Any
    codecs: Iterable[Any] | None
    filters: Any
    serializer: Any
    compressors: Any
    order: str | None
    dimension_names: Iterable[str | None] | None
    attributes: Mapping[str, Any] | None
    chunk_key_encoding: Any
    fallback: Iterable[str] | None
    storage_transformers: Iterable[Any] | None
    config: Any


class Member(ArrayOptions, total=False):
    """Options of a new array of a group, besides its values and their type."""

    shape: int | Iterable[int] | None
    overwrite: bool


class _InStore(TypedDict, total=False):
    path: str | None
    zarr_format: int | str | None
    storage_options: Mapping[str, Any] | None


class Place(Member, _InStore, total=False):
    """Options of a new array in a store, besides its values and their type."""


class CreateOptions(ArrayOptions, _InStore, total=False):
    """Options of functions that create an array of known shape in a store."""

    dtype: Any
    overwrite: bool


class OpenOptions(ArrayOptions, total=False):
    """Options of `open`, which may create an array."""

    shape: int | Iterable[int] | None
    dtype: Any
    data: Any


class OfGroup(_InStore, total=False):
    """Options of `open` for groups."""

    use_consolidated: bool | str | None
    missing: Missing
    attributes: Mapping[str, Any] | None


class OpenRest(ArrayOptions, OfGroup, total=False):
    """Options of `open` besides the shape and the type of a new array."""

    data: Any


class _Default:
    """The type of `DEFAULT_FILL`, which requests the default fill value of the data type."""

    def __repr__(self) -> str:
        return "<default>"

    def __reduce__(self) -> str:
        return "DEFAULT_FILL"


DEFAULT_FILL: _Default = _Default()

# Defaults of options other than None.
DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("chunks", "filters", "serializer", "compressors"), AUTO),
    "fill_value": DEFAULT_FILL,
    "overwrite": False,
}


def check_options(options: Mapping[str, Any]) -> None:
    """Raise if an option is unknown."""
    known = sorted({*ArrayOptions.__annotations__, *_PARAMETERS})
    for name in sorted(options.keys() - ArrayOptions.__annotations__.keys()):
        if name in known:
            raise WrongType(
                f"{name!r} is no option of a new array here: a member of a group has the store and"
                " the format of the group; omnizarr.create_array(store, path=...) has this option"
            )
        raise WrongType(
            f"unknown option {name!r}; {did_you_mean(name, known)}omnizarr.zarr has the functions"
            " of zarr-python with their options"
        )


def array_model(
    format: Format, shape: int | Iterable[int], dtype: Any, options: ArrayOptions
) -> ArrayModel:
    """Return the model of a new array, the same for equal options; raise if one is wrong."""
    given = data_types.value_key((shape, dtype, options, config.get().codecs))
    key = type(format), str(vars(format)), registry.generation(), given
    found = None if given is None else _models.get(key)
    if found is None:
        found = _make_model(format, shape, dtype, options)
        if given is not None:
            _models.put(key, found)
    return found


def _make_model(
    format: Format, shape: int | Iterable[int], dtype: Any, options: ArrayOptions
) -> ArrayModel:
    check_options(options)
    lengths = lengths_of(shape)
    named = format.new_type(data_types.describe("f8" if dtype is None else plain_type(dtype)))
    if named.name == "object":
        named = _object_type(options)
    data_type = data_types.bind(named)
    fallback = options.get("fallback")
    names = options.get("dimension_names")
    names = None if names is None else tuple(names)
    if names is not None and len(names) != len(lengths):
        raise InvalidArgument(
            f"dimension_names needs a name for each of {len(lengths)} axes, got {names}"
        )
    attributes = json_attributes(options.get("attributes") or {})
    if format.names_in_attributes:
        check_attributes(attributes, len(lengths))
    model = ArrayModel(
        shape=lengths,
        data_type=named,
        chunk_grid=chunk_grid(options.get("chunks", AUTO), lengths, data_type),
        chunk_key_encoding=key_encoding(format, options),
        fill_value=_fill(options, data_type, format),
        codecs=_codecs(format, data_type, len(lengths), options),
        storage_transformers=tuple(_transformers(options.get("storage_transformers"))),
        attributes=attributes,
        dimension_names=names,
        extra={} if fallback is None else {"fallback": list(fallback)},
    )
    shards = options.get("shards")
    if shards is not None:
        shape, index_location = shard_options(shards)
        model = format.sharded(model, shard_shape(shape, model, data_type), index_location)
    return format.adapt(model)


def _object_type(options: ArrayOptions) -> Named:
    """Return the type of an array of objects, determined by its codec from objects to bytes."""
    given: list[Any] = []
    for name in ("filters", "serializer", "codecs"):
        given += _several(options.get(name))
    if not given:
        raise InvalidArgument(
            "dtype object needs a codec from objects to bytes among filters, such as VLenUTF8() or"
            " JSON() of numcodecs; for text use dtype=str, for byte strings dtype=bytes"
        )
    names = {to_named(codec).name.removeprefix("numcodecs.") for codec in given}
    types = {"vlen-utf8": "string", "vlen-bytes": "bytes"}
    return Named(next((types[name] for name in names if name in types), "object"))


def plain_type(dtype: Any) -> Any:
    """Convert a data type of zarr-python to a NumPy type or JSON; return others as they are."""
    if not hasattr(dtype, "to_native_dtype"):
        return dtype
    native = dtype.to_native_dtype()
    if native.kind != "O":
        return native
    stated = dtype.to_json(zarr_format=3)
    return Named(stated) if isinstance(stated, str) else stated


def lengths_of(shape: int | Iterable[int]) -> tuple[int, ...]:
    """Return a shape as a tuple of integers; raise if it is not valid."""
    lengths = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    for n in lengths:
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
            raise WrongType(f"shape: expected integers >= 0, got {n!r}")
        if n < 0:
            raise InvalidArgument(f"shape: expected integers >= 0, got {n!r}")
    if math.prod(int(n) for n in lengths) >= 2**63:
        raise InvalidArgument(f"shape: the product of {lengths} does not fit into 63 bits")
    return tuple(int(n) for n in lengths)


def key_encoding(format: Format, options: ArrayOptions) -> Named:
    """Return the chunk key encoding of the options, or the default of the format."""
    given = options.get("chunk_key_encoding")
    if given is None:
        return format.key_encoding(None)
    if isinstance(given, Named):
        return given
    if isinstance(given, (tuple, list)) and len(given) == 2:  # zarr-python
        given = {"name": given[0], "separator": given[1]}
    if hasattr(given, "to_dict"):  # zarr-python
        given = given.to_dict()
    if given in ("/", "."):
        return format.key_encoding(given)
    if isinstance(given, str) and len(given) > 1:  # one character is meant as a separator
        given = {"name": given}
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise InvalidArgument(f"chunk_key_encoding: expected '/', '.' or JSON, got {given!r}")
    own = format.key_encoding(None).name
    if own != "default" and given["name"] != own:  # only version 3 names them in its metadata
        raise CannotExpress(
            f"chunk_key_encoding: zarr {format.name} has only {own!r}, not {given['name']!r};"
            " give '/' or '.', or zarr_format=3"
        )
    config = dict(given.get("configuration", {}))
    if "separator" in given:
        config["separator"] = given["separator"]
    return with_defaults("chunk_key_encoding", Named(given["name"], config))


def _fill(options: ArrayOptions, data_type: DataType, format: Format) -> FillValue:
    value = options.get("fill_value", DEFAULT_FILL)
    if value is None and format.undefined_fill:
        return FillValue(None, format.dialect)
    auto = isinstance(value, str) and value == AUTO and data_type.dtype.kind not in "TUO"
    if auto or value is None or value is DEFAULT_FILL:
        value = data_type.unset(format.dialect)
    return data_type.fill_json(value, format.dialect)


def _codecs(
    format: Format, data_type: DataType, rank: int, options: ArrayOptions
) -> tuple[Named, ...]:
    itemsize = None if data_type.variable else data_type.dtype.itemsize
    size = itemsize or 1
    order = options.get("order") or "C"
    if order not in ("C", "F"):
        raise InvalidArgument(f"order must be 'C' or 'F', got {order!r}")
    front = [Named("transpose", {"order": list(reversed(range(rank)))})] if order == "F" else []
    given = options.get("codecs")
    if given is not None:
        return (*front, *named_codecs(format, _several(given), "codecs", size))
    stated_filters = options.get("filters", AUTO)
    filters = named_codecs(format, _several(stated_filters), "filters", size)
    serializer = options.get("serializer", AUTO)
    filters += named_codecs(format, _several(serializer), "serializer")
    has_serializer = any(kind(f) == "array->bytes" for f in filters)
    if data_type.masking is not None:
        itemsize = None
        if not has_serializer:
            name = VLEN.get(data_type.masking.inner.named.name)
            data = {"name": name} if name else {"name": "bytes", "configuration": _LITTLE}
            lists = {"mask_codecs": [{"name": "packbits"}], "data_codecs": [data]}
            filters.append(Named("zarrs.optional", lists))
            has_serializer = True
    variable = None if has_serializer else VLEN.get(data_type.named.name)
    defaults = {
        wanted: [c for c in default_codecs(format, itemsize, variable) if kind(c) == wanted]
        for wanted in ("array->array", "array->bytes", "bytes->bytes")
    }
    if not has_serializer:
        if isinstance(stated_filters, str) and stated_filters == AUTO:
            filters += defaults["array->array"]
        if defaults["array->bytes"] != [Named("bytes")]:  # with_bytes adds it
            filters += defaults["array->bytes"]
    compressors = options.get("compressors", AUTO)
    if isinstance(compressors, str) and compressors == AUTO:
        tail = defaults["bytes->bytes"]
    else:
        tail = named_codecs(format, _several(compressors), "compressors", size)
    return (*front, *with_bytes([*filters, *tail]))


def named_codecs(format: Format, codecs: Iterable[Any], where: str, size: int = 1) -> list[Named]:
    """Return codecs under the format's own names; a name stated by the user is kept."""
    several = list(codecs)
    found = all_named(several, where, size)
    pairs = zip(several, found, strict=True)
    return [named if is_by_name(codec) else format.own_codec(named, size) for codec, named in pairs]


def _transformers(given: Iterable[Any] | None) -> Iterator[Named]:
    """Yield transformers from their JSON, named by `extension` (the draft) or by `name`."""
    for each in given or ():
        found = dict(each) if isinstance(each, Mapping) else {}
        if isinstance(each, Named):
            yield each
        elif isinstance(found.get("extension"), str):
            yield Named(found.pop("extension"), found)
        elif isinstance(found.get("name"), str):
            yield Named(found["name"], found.get("configuration", {}))
        else:
            raise InvalidArgument(
                f"storage_transformers: expected an object with 'extension' or 'name', got {each!r}"
            )


def _several(given: Any) -> list[Any]:
    if given is None or (isinstance(given, str) and given == AUTO):
        return []
    is_one = isinstance(given, (str, Mapping)) or not isinstance(given, Iterable)
    return [given] if is_one else list(given)


def default_codecs(format: Format, itemsize: int | None, variable: str | None) -> tuple[Named, ...]:
    """Return the default codecs for items of a size, or with the codec of a variable type.

    Of a setting that is a list, variable types use only the codecs after that from array to bytes.
    """
    chosen = config.get().codecs
    if isinstance(chosen, str):
        return format.default_codecs(itemsize, variable, chosen)
    given = named_codecs(format, chosen, "config.codecs", itemsize or 1)
    after = [codec for codec in given if kind(codec) == "bytes->bytes"]
    before = [codec for codec in given if kind(codec) != "bytes->bytes"]
    if variable is not None or not any(kind(codec) == "array->bytes" for codec in before):
        own = format.default_codecs(itemsize, variable, "fast")[0]
        before = [own] if variable is not None else [*before, own]
    return (*before, *after)


F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS_HELP = inspect.cleandoc(ArrayOptions.__doc__ or "").partition("Attributes:\n")[2]


def document_options(
    options: type, *, explained: bool = False, returns: str | None = None
) -> Callable[[F], F]:
    """Return a decorator that shows `options` in the signature of a function with ``**options``.

    `explained`: also as the last arguments in the docstring; `returns`: the annotation to show.
    """

    def give(function: F) -> F:
        own = inspect.signature(function)
        shown = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        for name, type_ in options.__annotations__.items():
            if name not in own.parameters:
                stated = {"default": DEFAULTS.get(name), "annotation": type_.__forward_arg__}
                shown.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, **stated))
        result = own.return_annotation if returns is None else returns
        made = own.replace(parameters=shown, return_annotation=result)
        function.__signature__ = made  # type: ignore[attr-defined]
        if explained and function.__doc__:
            before, gap, after = inspect.cleandoc(function.__doc__).partition("\n\nReturns:")
            function.__doc__ = f"{before}\n{_OPTIONS_HELP}{gap}{after}"
        return function

    return give
