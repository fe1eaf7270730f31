"""Data types of the draft: its own by their names, those of extensions by objects, fallbacks."""

from __future__ import annotations

import re
from typing import Any

from omnizarr import config, registry
from omnizarr._json import kind_of
from omnizarr.errors import InvalidMetadata
from omnizarr.formats.draft_extensions import check_uri
from omnizarr.formats.format import cannot
from omnizarr.formats.numpy_types import (
    byte_orders,
    from_type_string,
    itemsize,
    to_type_string,
    without_order,
)
from omnizarr.model import ArrayModel, Named
from omnizarr.model.fields import Fields

DATA_TYPES = "https://purl.org/zarr/spec/extensions/data-types/"
_CORE = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)|r[1-9]\d*")
_ALIASES = {"complex_float32": "complex64", "complex_float64": "complex128"}
# Data type extensions of the draft's companions, and what early writers put in their place.
_TYPE_URI = re.compile(
    r"https://purl\.org/zarr/spec/extensions/data-types/(datetime|string|struct|complex)/1\.0"
    r"|https://zarr-specs\.readthedocs\.io/.*(data-types|complex-dtypes)/.*"
    r"|TODO: .*array protocol URL"
)
# What each of the companions defines.
_DEFINED = {
    "datetime/1.0": ("numpy.datetime64", "numpy.timedelta64"),
    "string/1.0": ("null_terminated_bytes", "fixed_length_utf32"),
    "struct/1.0": ("struct",),
    "complex/1.0": ("complex64", "complex128"),
}


def read_type(fields: Fields) -> tuple[Named, dict[str, Any]]:
    """The data type, and the field as it stands where a fallback was taken."""
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
    """A core type by its name, or in NumPy's spelling as the draft's own examples have it."""
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
            return named, {"data_type": stated}  # never written, but kept where it stands
        return named, {"fallback": names} if names else {}
    if not _is_companion(uri):
        check_uri(fields, "data_type.extension", str(uri))
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
    """The type of an extension that only its URI names."""
    members = {k: v for k, v in stated.items() if k not in ("extension", "fallback")}
    return Named(str(stated["extension"]), members)


def _of_extension(stated: dict[str, Any]) -> tuple[Named | None, str]:
    """The type that an extension object means if it is known; else None, and what is wrong."""
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
    """The type behind a fallback that an extension defines: its identifier, or its object."""
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
    """Whether a type is one of the draft's own, and not of an extension."""
    return _CORE.fullmatch(_ALIASES.get(named.name, named.name)) is not None


def write_type(array: ArrayModel, format_name: str) -> Any:
    """The field `data_type`: a core name, or an extension object with fallbacks."""
    if "data_type" in array.extra:
        return array.extra["data_type"]
    named = without_order(array.data_type)
    name = _ALIASES.get(named.name, named.name)
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
    elif name in ("struct", "structured"):
        uri, fallback = "struct", [raw]
        type_ = _bare(type_)
    else:
        uri, fallback = "string", [raw]
        type_ = _bare(type_)
    chosen = array.extra.get("fallback", fallback)
    return {"extension": f"{DATA_TYPES}{uri}/1.0", "type": type_, "fallback": list(chosen)}


def _bare(type_: Any) -> Any:
    """Byte strings without the bar, as the draft spells them."""
    if isinstance(type_, str):
        return type_[1:] if type_.startswith("|S") else type_
    return [[field[0], _bare(field[1]), *field[2:]] for field in type_]


def _numpy_spelling(type_: Any) -> Any:
    """An identifier as NumPy has it: byte strings with a bar, core types by their codes."""
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
