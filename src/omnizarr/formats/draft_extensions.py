"""The extension points of the draft: codecs, storage transformers, array extensions, data types.

Every extension is named by a URI; those of the draft's companion texts start with
``https://purl.org/zarr/spec/``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from omnizarr import config, registry
from omnizarr._json import kind_of
from omnizarr.errors import InvalidMetadata
from omnizarr.formats import codec_names, numpy_types
from omnizarr.formats.format import cannot
from omnizarr.formats.numpy_types import byte_orders, from_type_string, itemsize, to_type_string
from omnizarr.model import ArrayModel, Named
from omnizarr.model.fields import Fields
from omnizarr.model.node import PREFIX

CODECS = "https://purl.org/zarr/spec/codecs/"
SHARDING = "https://purl.org/zarr/spec/extensions/storage-transformers/sharding/1.0"
_SHARDING = re.compile(
    r"https://purl\.org/zarr/spec/(extensions/)?storage[-_]transformers/sharding/1\.0"
)
# The draft has /codecs/…/1.0; its gzip page and early writers have /codec/, or omit 1.0.
_CODEC = re.compile(r"https://purl\.org/zarr/spec/codecs?/([a-z0-9-]+)(?:/1\.0)?")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_KNOWN_CODECS = ("gzip", "zlib", "blosc", "bz2", "lz4", "lzma", "zstd")


def read_codecs(fields: Fields, rank: int) -> tuple[Named, ...]:
    """Read the memory layout and `codecs`, or the earlier `compressor`, as the model's codecs."""
    steps = _layout(fields, rank)
    stated, places = fields.values.get("codecs", []), "codecs[{}]"
    name = "type"
    if "compressor" in fields.values and "codecs" not in fields.values:
        stated = [] if fields.get("compressor") is None else [fields.get("compressor")]
        name, places = "codec", "compressor"
    if not isinstance(stated, list):
        fields.error("codecs", f"expected a list, got {kind_of(stated)}")
        stated = []
    read = (_codec(fields, places.format(i), s, name) for i, s in enumerate(stated))
    found = [codec for codec in read if codec is not None]
    at = next((i for i, c in enumerate(found) if _kind(c) != "array->array"), len(found))
    if at == len(found) or _kind(found[at]) != "array->bytes":
        found.insert(at, Named("bytes"))
    return (*steps, *found)


def _layout(fields: Fields, rank: int) -> list[Named]:
    """Read the field `chunk_memory_layout` as codecs; an extension's is a registered codec."""
    layout = fields.get("chunk_memory_layout")
    if not isinstance(layout, dict):
        if fields.choice("chunk_memory_layout", ("C", "F")) == "F":
            return [Named("transpose", {"order": list(reversed(range(rank)))})]
        return []
    uri = extension_uri(fields, "chunk_memory_layout", layout)
    if uri and registry.find("codec", uri) is None:
        fields.error("chunk_memory_layout.extension", f"unknown memory layout {uri!r}")
    return [Named(uri, {k: v for k, v in layout.items() if k != "extension"})]


def extension_uri(fields: Fields, field: str, stated: dict[str, Any]) -> str:
    """Return the URI of an extension object, which must also have a type; empty if not valid."""
    if "type" not in stated:
        fields.error(f"{field}.type", "required, but missing")
    return _uri(fields, field, stated)


def _uri(fields: Fields, field: str, stated: dict[str, Any]) -> str:
    uri: Any = stated.get("extension")
    good = isinstance(uri, str) and bool(uri)
    if not fields.expect(f"{field}.extension", good, "a URI", uri):
        return ""
    if not is_uri(uri):
        fields.warn(f"{field}.extension", f"expected a URI, got {uri!r}")
    return str(uri)


def _kind(codec: Named) -> str:
    if codec.name in ("bytes", "endian"):
        return "array->bytes"
    if codec.name.startswith(PREFIX):
        return "bytes->bytes"
    return getattr(registry.find("codec", codec.name), "kind", "bytes->bytes")


def _codec(fields: Fields, where: str, stated: Any, name: str) -> Named | None:
    if not fields.expect(where, isinstance(stated, dict), "an object", stated):
        return None
    uri, configuration = stated.get(name), stated.get("configuration", {})
    if not fields.expect(f"{where}.{name}", isinstance(uri, str) and bool(uri), "a URI", uri):
        return None
    is_object = isinstance(configuration, dict)
    if not fields.expect(f"{where}.configuration", is_object, "an object", configuration):
        return None
    for other in stated.keys() - {name, "configuration"}:
        fields.error(f"{where}.{other}", "unknown member")
    match = _CODEC.fullmatch(uri)
    if match is None:
        if not is_uri(uri):
            message = f"expected a URI, got {uri!r}; write {CODECS}{uri}/1.0 for the draft"
            fields.error(f"{where}.{name}", message)
        return Named(uri, configuration, where=where)
    if match[1] == "endian":
        if "endian" not in configuration:
            fields.error(f"{where}.configuration.endian", "required, but missing")
        elif configuration["endian"] is None:
            fields.error(f"{where}.configuration.endian", "expected 'little' or 'big', got null")
        return Named("bytes", configuration, stated=uri, where=where)
    # The configurations of gzip and blosc are those of numcodecs, but gzip's level is required.
    known = "gzip" if match[1] == "gzip" else PREFIX + match[1]
    return Named(known, configuration, stated=uri, where=where)


def write_codecs(array: ArrayModel, format_name: str) -> tuple[Any, list[dict[str, Any]]]:
    """Return the memory layout and the field `codecs`."""
    order: Any
    if "chunk_memory_layout" in array.extra:
        order, codecs = array.extra["chunk_memory_layout"], list(array.codecs[1:])
    else:
        order, codecs = codec_names.split_order(array, format_name)
    out: list[dict[str, Any]] = []
    is_bytes = False
    for codec in codecs:
        if is_bytes and _kind(codec) != "bytes->bytes":
            raise InvalidMetadata(
                f"codecs: {codec.name!r} takes an array, but the codecs before it made bytes"
            )
        is_bytes = is_bytes or _kind(codec) != "array->array"
        if codec.name in ("bytes", "endian"):
            stated = codec.configuration.get("endian")
            if "data_type" not in array.extra:
                big = stated == "big" or (
                    stated is None and byte_orders(array.data_type) == {"big"}
                )
                stated = "big" if big else None  # without the codec, items are little-endian
            if stated is not None:
                config_ = {"endian": stated}
                out.append({"type": f"{CODECS}endian/1.0", "configuration": config_})
        elif is_uri(codec.name):
            out.append({"type": codec.name, "configuration": dict(codec.configuration)})
        else:
            _, [step], _ = codec_names.to_ids(array.with_(codecs=(codec,)), format_name)
            id_ = step.pop("id")
            if id_ not in _KNOWN_CODECS:
                raise cannot(
                    format_name, f"the codec {codec.name!r}", "the draft has no URI for it"
                )
            if id_ == "gzip":
                step = {"level": 1, **step}
            if id_ == "blosc":
                step = {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0, **step}
            out.append({"type": f"{CODECS}{id_}/1.0", "configuration": step})
    return order, out


def read_transformers(fields: Fields) -> tuple[Named, ...]:
    """Read the field `storage_transformers`."""
    found = []
    for where, value in fields.items("storage_transformers"):
        if not fields.expect(where, isinstance(value, dict), "an object", value):
            continue
        uri = extension_uri(fields, where, value)
        named = Named(uri, {k: v for k, v in value.items() if k != "extension"})
        found.append(Named(SHARDING, named.configuration) if is_sharding(named) else named)
    return tuple(found)


def write_transformers(array: ArrayModel) -> list[dict[str, Any]]:
    """Return the field `storage_transformers`, with the URI that the sharding text itself uses."""
    return [
        {"extension": SHARDING if is_sharding(t) else t.name, **t.configuration}
        for t in array.storage_transformers
    ]


def is_uri(text: str) -> bool:
    """Return True for a URI, which every name of the draft's extensions must be."""
    return _URI.fullmatch(text) is not None


def is_sharding(transformer: Named) -> bool:
    """Return True for the draft's sharding transformer, in any spelling of its URI."""
    return _SHARDING.fullmatch(transformer.name) is not None


def array_extensions(fields: Fields) -> list[Any]:
    """Read the field `extensions`; an unknown one is an error unless it may be ignored."""
    found = []
    for where, value in fields.items("extensions"):
        found.append(value)
        if not fields.expect(where, isinstance(value, dict), "an object", value):
            continue
        _uri(fields, where, value)
        must = value.get("must_understand")
        known = isinstance(must, bool)
        if fields.expect(f"{where}.must_understand", known, "true or false", must) and must:
            fields.error(where, f"unknown extension {value.get('extension')!r} must be understood")
    return found


DATA_TYPES = "https://purl.org/zarr/spec/extensions/data-types/"
_CORE = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)|r[1-9]\d*")
# Data type extensions of the draft's companion texts, and the names that early writers used.
_TYPE_URI = re.compile(
    r"https://purl\.org/zarr/spec/extensions/data-types/(datetime|string|struct|complex)/1\.0"
    r"|https://zarr-specs\.readthedocs\.io/.*(data-types|complex-dtypes)/.*"
    r"|TODO: .*array protocol URL"
)
# The types that each companion text defines.
_DEFINED = {
    "datetime/1.0": ("numpy.datetime64", "numpy.timedelta64"),
    "string/1.0": ("null_terminated_bytes", "fixed_length_utf32"),
    "struct/1.0": ("struct",),
    "complex/1.0": ("complex64", "complex128"),
}


def read_type(fields: Fields) -> tuple[Named, dict[str, Any]]:
    """Return the data type, and the field unchanged if a fallback was used."""
    stated = fields.get("data_type")
    if "data_type" not in fields.values:
        return Named("bool"), {}
    if isinstance(stated, dict):
        return _extension_type(fields, stated)
    found = _core_type(stated)
    if found is None:
        fields.error("data_type", f"unknown data type: {kind_of(stated)}")
    return found or Named("bool"), {}


def _core_type(stated: object) -> Named | None:
    """Return a core type by its name, or by NumPy's spelling as in the draft's own examples."""
    if not isinstance(stated, str):
        return None
    if _CORE.fullmatch(stated):
        good = stated[0] != "r" or int(stated[1:]) % 8 == 0
        return Named(stated) if good else None
    one_byte = stated in ("b1", "i1", "u1")
    try:
        named = from_type_string(stated, order_needed=not one_byte)
    except InvalidMetadata:
        return None
    return named if _CORE.fullmatch(named.name) else None


def _extension_type(fields: Fields, stated: dict[str, Any]) -> tuple[Named, dict[str, Any]]:
    for name in ("extension", "type"):
        if name not in stated:
            fields.error(f"data_type.{name}", "required, but missing")
            return Named("bool"), {}
    uri, type_ = stated["extension"], stated["type"]
    fallback = stated.get("fallback", [])
    names = fallback if isinstance(fallback, list) else [fallback]
    named, problem = _of_extension(stated)
    if _is_companion(uri):
        for name in sorted(stated.keys() - {"extension", "type", "fallback"}):
            fields.warn(f"data_type.{name}", "unknown member; ignored")
    if named is not None and _is_companion(uri):
        if "big" in byte_orders(named):
            return named, {"data_type": stated}  # never written anew, but kept
        return named, {"fallback": names} if names else {}
    if not _is_companion(uri):
        _uri(fields, "data_type", stated)
    if named is not None:
        return named, {"data_type": stated}
    if config.get().fallback != "refuse":
        for each in names:
            found = _core_type(each) or _type_of_extension(each)
            if found is None:
                continue
            if config.get().fallback == "warn":
                message = f"unknown type {type_!r} of {uri!r}; its fallback {each!r} is used"
                fields.warn("data_type", message)
            return found, {"data_type": stated}
    if problem:
        fields.error("data_type.type", problem)
        return Named("bool"), {}
    return _by_uri(stated), {"data_type": stated}


def _is_companion(uri: object) -> bool:
    """Return True for the URI of one of the draft's own data type extensions."""
    return isinstance(uri, str) and _TYPE_URI.fullmatch(uri) is not None


def _by_uri(stated: dict[str, Any]) -> Named:
    """Return the type of an extension that only its URI names."""
    members = {k: v for k, v in stated.items() if k not in ("extension", "fallback")}
    return Named(str(stated["extension"]), members)


def _of_extension(stated: dict[str, Any]) -> tuple[Named | None, str]:
    """Return the type of a known extension object; else None and the reason."""
    uri, type_ = stated.get("extension"), stated.get("type")
    if not _is_companion(uri):
        named = _by_uri(stated)
        return (None, "") if registry.find("data_type", named.name) is None else (named, "")
    try:
        named = from_type_string(_numpy_spelling(type_))
    except InvalidMetadata as e:
        return None, str(e)
    defined = _DEFINED.get(str(uri).removeprefix(DATA_TYPES))
    if defined is not None and named.name not in defined:
        return None, f"{type_!r} is not a type of {uri!r}"
    return named, ""


def _type_of_extension(stated: Any) -> Named | None:
    """Return the type behind an extension's fallback: its identifier, or its object."""
    if isinstance(stated, dict) and "extension" in stated and "type" in stated:
        return _of_extension(stated)[0]
    if not isinstance(stated, (str, list)):
        return None
    try:
        named = from_type_string(_numpy_spelling(stated))
    except InvalidMetadata:
        return None
    return named if any(named.name in defined for defined in _DEFINED.values()) else None


def is_core(named: Named) -> bool:
    """Return True for a type that the draft itself defines, without an extension."""
    return _CORE.fullmatch(numpy_types.ALIASES.get(named.name, named.name)) is not None


def write_type(array: ArrayModel, format_name: str) -> Any:
    """Return the field `data_type`: a core name, or an extension object with fallbacks."""
    if "data_type" in array.extra:
        return array.extra["data_type"]
    named = numpy_types.without_order(array.data_type)
    name = numpy_types.ALIASES.get(named.name, named.name)
    if is_core(named):
        return name
    if name == "raw_bytes":
        return f"r{8 * named.configuration['length_bytes']}"
    type_ = to_type_string(named, format_name)
    raw = f"r{8 * (itemsize(named) or 0)}"
    if name.startswith("numpy."):
        if named.configuration.get("scale_factor", 1) != 1:
            raise cannot(format_name, f"times that count in {type_[3:]}", "only plain units")
        uri, fallback = "datetime", ["int64", raw]
    else:
        uri, fallback = "struct" if name in ("struct", "structured") else "string", [raw]
        type_ = _bare(type_)
    chosen = array.extra.get("fallback", fallback)
    return {"extension": f"{DATA_TYPES}{uri}/1.0", "type": type_, "fallback": list(chosen)}


def _bare(type_: Any) -> Any:
    """Return the spelling of byte strings without the bar, as in the draft."""
    if isinstance(type_, str):
        return type_[1:] if type_.startswith("|S") else type_
    return [[field[0], _bare(field[1]), *field[2:]] for field in type_]


def _numpy_spelling(type_: Any) -> Any:
    """Return an identifier in NumPy's spelling: byte strings with a bar, core types by code."""
    if isinstance(type_, str):
        core = _core_type(type_) if _CORE.fullmatch(type_) else None
        if core is not None:
            return to_type_string(core, "3-draft")
        return f"|{type_}" if type_.startswith("S") else type_
    if not isinstance(type_, list):
        return type_
    pairs = [isinstance(field, list) and len(field) > 1 for field in type_]
    return [
        [field[0], _numpy_spelling(field[1]), *field[2:]] if pair else field
        for field, pair in zip(type_, pairs, strict=True)
    ]


def packed_shard_shape(array: ArrayModel) -> tuple[int, ...] | None:
    """Return the shard shape if a storage transformer packs chunks of one shape, else None."""
    chunks = array.chunk_grid.configuration.get("chunk_shape")
    for transformer in array.storage_transformers:
        inner = transformer.configuration.get("configuration")
        per = inner.get("chunks_per_shard") if isinstance(inner, Mapping) else None
        if transformer.name == SHARDING and isinstance(per, list) and isinstance(chunks, list):
            return tuple(c * n for c, n in zip(chunks, per, strict=True))
    return None
