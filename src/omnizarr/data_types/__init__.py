"""Data types: tables of rows that tie a name to NumPy and to the spelling of fill values.

`describe` returns the name of everything that users give as a type, `bind` the type of a name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from omnizarr import registry
from omnizarr.data_types import compound, flexible, numeric
from omnizarr.data_types.cast import as_type, cast
from omnizarr.data_types.compound import bind_name as bind
from omnizarr.data_types.data_type import DataType, own_type, value_key
from omnizarr.data_types.numeric import NUMPY, SMALL_FLOATS, SMALL_INTEGERS
from omnizarr.errors import InvalidArgument, WrongType, known_names
from omnizarr.model import Named

for _names, _bind in (
    (numeric.NUMERIC_NAMES, numeric.bind_numeric),
    (flexible.RAW_NAMES, flexible.bind_raw),
    (compound.STRUCT_NAMES, compound.bind_struct),
    (flexible.TEXT_NAMES, flexible.bind_text),
    (("fixed_length_utf32",), flexible.bind_utf32),
    (("null_terminated_bytes",), flexible.bind_fixed_bytes),
    (numeric.TIME_NAMES, numeric.bind_time),
):
    for _name in _names:
        registry.register("data_type", _name, _bind)
for _name in ("zarrs.optional", "optional"):
    registry.register("data_type", _name, "omnizarr.data_types.compound:bind_optional")

_KINDS = {np.dtype(code).str[1:]: name for name, code in reversed(NUMPY.items())}
_COMMON = ("bool", "int32", "int64", "uint8", "uint16", "float32", "float64", "string")
_OWN_NAMES = ("string", "bytes", "object", *SMALL_INTEGERS, *SMALL_FLOATS)


def describe(dtype: Any) -> Named:
    """Return the name and configuration of a NumPy type, type string, Python type or own name."""
    if isinstance(dtype, Named):
        return dtype
    if isinstance(dtype, dict) and isinstance(dtype.get("name"), str):
        return Named(dtype["name"], dtype.get("configuration", {}))
    if dtype is str or (isinstance(dtype, str) and dtype == "str"):
        return Named("string")
    if dtype is bytes:
        return Named("bytes")
    if isinstance(dtype, str) and (dtype in _OWN_NAMES or flexible.PATTERN.fullmatch(dtype)):
        return Named(dtype)
    try:
        found = np.dtype(_nested(dtype))
    except (TypeError, ValueError) as e:
        if isinstance(dtype, str) and registry.find("data_type", dtype) is not None:
            return Named(dtype)
        common = dict.fromkeys((*_COMMON, *registry.names("data_type")))
        known = known_names(dtype, common, len(_COMMON)) if isinstance(dtype, str) else e
        raise WrongType(f"data type {dtype!r} is not known; {known}") from None
    return _named(found)


def _named(dtype: np.dtype[Any]) -> Named:
    if dtype.names is not None:
        return _struct(dtype)
    if dtype.kind == "T":
        return Named("string")
    big = dtype.newbyteorder("S") != dtype and dtype.newbyteorder("<") != dtype
    endian = {"endian": "big"} if big else {}
    if dtype.kind == "O":
        return Named("object")
    if dtype.kind in "SU" and not dtype.itemsize:
        any_length = "str" if dtype.kind == "U" else "bytes"
        raise InvalidArgument(
            f"data type {dtype.str!r} has no length; write '{dtype.kind}10' for up to 10"
            f" characters, or {any_length} for any length"
        )
    if dtype.kind == "U":
        return Named("fixed_length_utf32", {"length_bytes": dtype.itemsize, **endian})
    if dtype.kind == "S":
        return Named("null_terminated_bytes", {"length_bytes": dtype.itemsize})
    if dtype.kind in "Mm":
        unit, scale = np.datetime_data(dtype)
        if unit == "generic":
            raise InvalidArgument(f"data type {dtype.str!r} has no unit; write {dtype.str}[ns]")
        name = "numpy.datetime64" if dtype.kind == "M" else "numpy.timedelta64"
        return Named(name, {"unit": unit, "scale_factor": scale, **endian})
    if dtype.name in SMALL_FLOATS or dtype.name in SMALL_INTEGERS:
        return Named(dtype.name, endian)
    if dtype.kind == "V" and dtype.itemsize and dtype.subdtype is None:
        return Named(f"r{8 * dtype.itemsize}")
    if dtype.str[1:] not in _KINDS and dtype.type in (np.longdouble, np.clongdouble):
        name = "numpy.longdouble" if dtype.kind == "f" else "numpy.clongdouble"
        numeric.check_platform(name)
        return Named(name, endian)
    if dtype.str[1:] in _KINDS:
        return Named(_KINDS[dtype.str[1:]], endian)
    raise InvalidArgument(f"data type {dtype!r} cannot be stored in Zarr")


def _struct(dtype: np.dtype[Any]) -> Named:
    if dtype.fields is None or dtype.names is None:
        raise InvalidArgument(f"data type {dtype!r} has no fields")
    fields: list[dict[str, Any]] = []
    end = 0
    for name in dtype.names:
        inner, offset = dtype.fields[name][:2]
        if offset < end:
            raise InvalidArgument(
                f"data type {dtype!r} has overlapping fields, or fields in another order than their"
                " bytes; Zarr stores records packed: use numpy.lib.recfunctions.repack_fields"
            )
        fields += _padding(offset - end)
        base, shape = inner.subdtype if inner.subdtype else (inner, ())
        named = _named(base)
        full = {"name": named.name, "configuration": dict(named.configuration)}
        field = {"name": name, "data_type": full if named.configuration else named.name}
        fields.append({**field, "shape": list(shape)} if shape else field)
        end = offset + inner.itemsize
    fields += _padding(dtype.itemsize - end)
    return Named("struct", {"fields": fields})


def _padding(size: int) -> list[dict[str, Any]]:
    """Return the bytes between fields as a field without a name, as version 2 writes them."""
    return [{"name": "", "data_type": f"r{8 * size}"}] if size else []


def _nested(dtype: Any) -> Any:
    """Return JSON lists as the tuples that NumPy requires."""
    lists = (list, tuple)
    if isinstance(dtype, lists) and dtype and all(isinstance(f, lists) for f in dtype):
        return [(f[0], _nested(f[1]), *([tuple(f[2])] if len(f) == 3 else [])) for f in dtype]
    return dtype
