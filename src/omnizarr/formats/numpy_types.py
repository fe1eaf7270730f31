"""Type strings of versions 1 and 2 (NumPy's array protocol), which the draft uses too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from omnizarr.errors import InvalidMetadata
from omnizarr.formats.format import cannot
from omnizarr.model import Named

_SIMPLE = {
    "b1": "bool",
    **{f"i{n}": f"int{8 * n}" for n in (1, 2, 4, 8)},
    **{f"u{n}": f"uint{8 * n}" for n in (1, 2, 4, 8)},
    **{f"f{n}": f"float{8 * n}" for n in (2, 4, 8)},
    "c8": "complex64",
    "c16": "complex128",
    # 80 bits in 16 bytes, as NumPy has them on Intel's processors; no other format names them.
    "f16": "numpy.longdouble",
    "c32": "numpy.clongdouble",
}
_CODES = {name: code for code, name in _SIMPLE.items()}
ALIASES = {"complex_float32": "complex64", "complex_float64": "complex128"}
_PAIR = "complex_"  # and the name of the type of both parts
_TYPE = re.compile(r"([<>|=]?)([biufcmMSUVO])(\d*)(?:\[(\d*)(\w+)\])?")
_UNITS = {"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"}
# Types of a few bits, which have no type string in versions 1 and 2.
_ITEM_BITS = re.compile(r"(?:u?int|float|bfloat)(\d+)")
# Names of numbers, with what they consist of.
_NUMBER = re.compile(r"(complex_?)?(u?int|b?float)?\d")
MAX_DEPTH = 16


def from_type_string(stated: Any, *, order_needed: bool = True, depth: int = 0) -> Named:
    """Return the named type for a type string or a list of fields; raise InvalidMetadata."""
    if isinstance(stated, list):
        return _from_fields(stated, order_needed, depth)
    if not isinstance(stated, str):
        raise InvalidMetadata(f"expected a type string or a list of fields, got {stated!r}")
    match = _TYPE.fullmatch(stated)
    if match is None:
        raise InvalidMetadata(f"{stated!r} is not a NumPy type string such as '<f8' or '|S12'")
    order, kind, size, scale, unit = match.groups()
    if order_needed and not order:
        raise InvalidMetadata(f"{stated!r} does not state the byte order; write '<{stated}'")
    if order == "=":
        raise InvalidMetadata(f"{stated!r}: the byte order must be '<', '>' or '|'")
    if (unit is not None) != (kind in "mM"):
        if unit is None:
            raise InvalidMetadata(f"{stated!r} has no unit; write '{stated}[ns]'")
        raise InvalidMetadata(f"{stated!r}: only times have a unit")
    named = _from_parts(stated, kind, size, scale, unit)
    multi_byte = kind in "mMU" or (named.name in _CODES and size not in ("1", ""))
    if order == "|" and multi_byte:
        raise InvalidMetadata(f"{stated!r} does not state the byte order; write '<{stated[1:]}'")
    return named.replace(endian="big") if order == ">" and multi_byte else named


def _from_parts(stated: str, kind: str, size: str, scale: str | None, unit: str | None) -> Named:
    if kind == "O":
        return Named("object")
    if kind + size in _SIMPLE:
        return Named(_SIMPLE[kind + size])
    if kind in "mM":
        if size != "8" or unit not in _UNITS or scale == "0":
            raise InvalidMetadata(f"{stated!r}: times have 8 bytes and one of NumPy's units")
        name = "numpy.datetime64" if kind == "M" else "numpy.timedelta64"
        return Named(name, {"unit": unit, "scale_factor": int(scale or 1)})
    if kind in "SUV" and size and len(size) < 10:
        length = int(size)
        if kind == "S":
            return Named("null_terminated_bytes", {"length_bytes": length})
        if kind == "U":
            return Named("fixed_length_utf32", {"length_bytes": 4 * length})
        if length:
            return Named(f"r{8 * length}")
    raise InvalidMetadata(f"{stated!r} is not a known type")


def _from_fields(stated: list[Any], order_needed: bool, depth: int) -> Named:
    if depth > MAX_DEPTH:
        raise InvalidMetadata(f"structured types are nested more than {MAX_DEPTH} levels deep")
    fields = []
    for i, entry in enumerate(stated):
        good = isinstance(entry, list) and len(entry) in (2, 3) and isinstance(entry[0], str)
        padding = good and not entry[0] and len(entry) == 2 and str(entry[1]).startswith("|V")
        if not good or not (entry[0] or padding):
            raise InvalidMetadata(f"field {i}: expected [name, type] or [name, type, shape]")
        inner = from_type_string(entry[1], order_needed=order_needed, depth=depth + 1)
        if inner.name == "object":
            raise InvalidMetadata(f"field {entry[0]!r}: objects cannot be part of a structure")
        field: dict[str, Any] = {"name": entry[0], "data_type": as_json(inner)}
        if len(entry) == 3:
            shape = [entry[2]] if isinstance(entry[2], int) else entry[2]
            if not isinstance(shape, list) or not all(
                isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in shape
            ):
                raise InvalidMetadata(f"field {entry[0]!r}: {entry[2]!r} is not a shape")
            field["shape"] = shape
        fields.append(field)
    if not fields:
        raise InvalidMetadata("a structured type needs at least one field")
    return Named("struct", {"fields": fields})


def to_type_string(named: Named, format_name: str) -> Any:
    """Return the type string or list of fields of a named type; raise CannotExpress."""
    name, config = named.name, named.configuration
    order = ">" if config.get("endian") == "big" else "<"
    name = ALIASES.get(name, name)
    if name in _CODES:
        code = _CODES[name]
        return ("|" if code.endswith("1") else order) + code
    if name in ("numpy.datetime64", "numpy.timedelta64"):
        unit, scale = str(config.get("unit")), config.get("scale_factor", 1)
        if unit == "generic":
            raise cannot(format_name, f"{name} without a unit")
        letter = "M" if name == "numpy.datetime64" else "m"
        unit = "us" if unit == "μs" else unit
        return f"{order}{letter}8[{scale if scale != 1 else ''}{unit}]"
    if name == "null_terminated_bytes":
        return f"|S{config['length_bytes']}"
    if name == "fixed_length_utf32":
        return f"{order}U{config['length_bytes'] // 4}"
    if name == "raw_bytes":
        return f"|V{config['length_bytes']}"
    if name[0] == "r" and name[1:].isdigit():
        return f"|V{int(name[1:]) // 8}"
    if name in ("string", "bytes", "variable_length_bytes", "object"):
        return "|O"
    if name in ("struct", "structured"):
        entries = []
        for field in config["fields"]:
            part, inner = field_parts(field)
            shape = field.get("shape") if isinstance(field, dict) else None
            entries.append([part, to_type_string(inner, format_name), *([shape] if shape else [])])
        return entries
    raise cannot(format_name, f"the data type {name!r}")


def only_old(named: Named) -> str | None:
    """Return the part of a type that only versions 1 and 2 can express, or None."""
    if named.name in ("numpy.longdouble", "numpy.clongdouble"):
        return f"{named.name.removeprefix('numpy.')}, a float of 80 bits"
    if named.name == "fixed_length_utf32" and named.configuration.get("length_bytes") == 0:
        return "'fixed_length_utf32' with a length_bytes of 0 (the least is 4)"
    if named.name not in ("struct", "structured"):
        return None
    try:
        parts = [field_parts(field) for field in named.configuration["fields"]]
    except (LookupError, TypeError, AttributeError):
        return None  # malformed, which binding the type reports
    if not all(name for name, _ in parts):
        return "a structure with padding (numpy.lib.recfunctions.repack_fields removes it)"
    return next((found for _, inner in parts if (found := only_old(inner))), None)


def check_pairs(named: Named, format_name: str) -> None:
    """Raise for sub-arrays, where only pairs of name and type are allowed."""
    is_struct = named.name in ("struct", "structured")
    for field in named.configuration.get("fields", ()) if is_struct else ():
        name, inner = field_parts(field)
        if isinstance(field, dict) and field.get("shape"):
            raise cannot(format_name, f"the sub-array field {name!r}")
        check_pairs(inner, format_name)


def beyond_pairs(stated: Any) -> Iterator[str]:
    """Return the names of fields that have a shape, or fields of their own."""
    for field in _entries(stated):
        if len(field) > 2 or isinstance(field[1], list):
            yield str(field[0])


def number_shapes(stated: Any) -> Iterator[tuple[str, int]]:
    """Return the fields whose shape is a number and not a list, at any depth, with that number."""
    for field in _entries(stated):
        if len(field) > 2 and isinstance(field[2], int):
            yield str(field[0]), field[2]
        yield from number_shapes(field[1])


def _entries(stated: Any) -> Iterator[list[Any]]:
    """Yield the fields of a structure that have at least a name and a type."""
    for field in stated if isinstance(stated, list) else ():
        if isinstance(field, list) and len(field) > 1:
            yield field


def field_parts(field: Any) -> tuple[str, Named]:
    """Return name and type of one field of a struct, in either spelling."""
    name, inner = (
        (field["name"], field["data_type"]) if isinstance(field, dict) else (field[0], field[1])
    )
    if isinstance(inner, str):
        return name, Named(inner)
    return name, Named(inner["name"], inner.get("configuration", {}))


def as_json(named: Named) -> Any:
    """Return a named type as version 3 writes it: a string where that is sufficient."""
    if not named.configuration:
        return named.name
    return {"name": named.name, "configuration": dict(named.configuration)}


def byte_orders(named: Named) -> set[str]:
    """Return the byte orders of the parts of a type; none for bytes, and for malformed types."""
    try:
        if named.name in ("struct", "structured"):
            parts = (field_parts(field)[1] for field in named.configuration["fields"])
            return {order for part in parts for order in byte_orders(part)}
        number = ALIASES.get(named.name, named.name.removeprefix(_PAIR))
        size = itemsize(Named(number, named.configuration))
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError):
        return set()
    if not named.name or size in (None, 1) or named.name in ("raw_bytes", "null_terminated_bytes"):
        return set()
    if named.name[0] == "r" and named.name[1:].isdigit():
        return set()
    return {"big" if named.configuration.get("endian") == "big" else "little"}


def without_order(named: Named) -> Named:
    """Return the type without byte orders, also inside structures."""
    if not named.configuration or '"endian"' not in json.dumps(dict(named.configuration)):
        return named  # in its original spelling
    if named.name in ("struct", "structured"):
        return _with_fields(named, without_order)
    return named.without("endian")


def renamed_struct(named: Named) -> Named:
    """Return ``structured``, which has pairs for fields, as a ``struct``; others unchanged."""
    if named.name not in ("struct", "structured"):
        return named
    try:
        return _with_fields(named, renamed_struct)
    except (LookupError, TypeError, AttributeError):
        return named  # malformed, which binding the type reports


def _with_fields(named: Named, change: Callable[[Named], Named]) -> Named:
    """Return a structure, by its registered name and form, with the types of its fields changed."""
    fields = []
    for stated in named.configuration["fields"]:
        name, inner = field_parts(stated)
        more = stated if isinstance(stated, dict) else {}
        fields.append({**more, "name": name, "data_type": as_json(change(inner))})
    return Named("struct", {**named.configuration, "fields": fields})


def zero_json(named: Named) -> Any:
    """Return the fill value 0, false or "" of a type in JSON; None for types that have none."""
    if named.name in ("bool", "string"):
        return False if named.name == "bool" else ""
    match = _NUMBER.match(named.name)
    if match is None or not match[0][:-1]:
        return None
    zero = 0 if match[2] in ("int", "uint") else 0.0
    return [zero, zero] if match[1] else zero


def itemsize(named: Named) -> int | None:
    """Return the bytes of one item, or None if it is variable or not known here."""
    name, config = named.name, named.configuration
    name = ALIASES.get(name, name)
    if name in _CODES:
        return int(_CODES[name][1:])
    if name.startswith("numpy."):
        return 8
    if "length_bytes" in config:
        return int(config["length_bytes"])
    if name[0] == "r" and name[1:].isdigit():
        return int(name[1:]) // 8
    if name in ("struct", "structured"):
        total = 0
        for field in config["fields"]:
            inner = itemsize(field_parts(field)[1])
            if inner is None:
                return None
            for n in field.get("shape", ()) if isinstance(field, dict) else ():
                inner *= n
            total += inner
        return total
    parts = 2 if name.startswith(_PAIR) else 1
    match = _ITEM_BITS.match(name.removeprefix(_PAIR))
    return parts * max(1, int(match[1]) // 8) if match else None
