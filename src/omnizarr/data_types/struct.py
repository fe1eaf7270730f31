"""Records: fixed-size items of named fields, possibly nested.

They are packed, but in versions 1 and 2 may have padding: a raw field without a name.

Specification: registered extension ``struct`` (``structured`` is its older spelling); in
version 1 and 2 a list of ``[name, type]`` or ``[name, type, shape]``; in the draft its struct
extension. Configuration: ``{"fields": [{"name": "x", "data_type": "float32"}, …]}``.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from omnizarr import registry
from omnizarr.concurrency.cache import Cache
from omnizarr.data_types.data_type import DataType, Scalar, from_base64, old, to_base64, wrong
from omnizarr.data_types.flexible import PATTERN
from omnizarr.errors import InvalidMetadata
from omnizarr.model import Dialect, Named
from omnizarr.model.fields import Fields
from omnizarr.model.fields import named as as_named
from omnizarr.model.node import check_members, invalid

STRUCT_NAMES = ("struct", "structured")
_simple: Cache[tuple[int, str], DataType] = Cache(256)  # types without a configuration


def bind_name(named: Named) -> DataType:
    """Return the data type of any name; only here do names become NumPy types."""
    if named.configuration:
        return _bind_name(named)
    key = (registry.generation(), named.name)
    return _simple.get(key) or _simple.put(key, _bind_name(named))


def _bind_name(named: Named) -> DataType:
    target = registry.find("data_type", named.name)
    if target is None and PATTERN.fullmatch(named.name):
        target = registry.lookup("data_type", "raw_bytes")
    if target is None:
        # An extension type of the draft is a URI and a type.
        type_ = named.configuration.get("type")
        where = "" if type_ is None else f"data_type with type {type_!r}"
        target = registry.lookup("data_type", named.name, where)
    bound: DataType = target(named)
    return bound


def bind_struct(named: Named) -> DataType:
    """Return the data type of records with these fields."""
    check_members(named, "data type", required=("fields",))
    fields = _fields(named)
    parts = [(name, bind_name(inner), shape) for name, inner, shape in fields]
    for name, part, _ in parts:
        if part.variable or not part.dtype.itemsize:
            what = "of variable length" if part.variable else "with no bytes"
            message = f"field {name!r} has the type {part.named.name!r} {what}"
            raise invalid("data type", named.name, "fields", message)
    size = sum(part.dtype.itemsize * math.prod(shape) for _, part, shape in parts)
    if size >= 2**31:
        raise InvalidMetadata(f"data type {named.name!r}: an item has {size} bytes")
    dtype = _dtype(parts)
    parts = [(name, part, shape) for name, part, shape in parts if name]

    def decode(json: Any, dialect: Dialect) -> Any:
        if isinstance(json, str):
            data = from_base64(json, named)
            if len(data) != dtype.itemsize:
                raise wrong(named, f"Base64 of exactly {dtype.itemsize} bytes", json)
            return np.frombuffer(data, dtype)[0:1].reshape(())
        if json == 0 and old(dialect) and not isinstance(json, bool):
            return np.zeros((), dtype)
        if not isinstance(json, dict) or json.keys() != {name for name, _, _ in parts}:
            names = ", ".join(name for name, _, _ in parts)
            raise wrong(named, f"an object with exactly {names}", json)
        out = np.zeros((), dtype)
        for name, part, _ in parts:
            out[name] = part.scalar(part.decode(json[name], dialect))
        return out

    def encode(value: Scalar, dialect: Dialect) -> Any:
        if dialect != "v3" or any(shape for _, _, shape in parts):
            return to_base64(value.tobytes())
        return {
            name: part.encode(value.reshape(1)[name][0:1].reshape(()), dialect)
            for name, part, _ in parts
        }

    return DataType(named, dtype, decode, encode, zero=np.zeros((), dtype))


def _dtype(parts: list[tuple[str, DataType, tuple[int, ...]]]) -> np.dtype[Any]:
    """Return the NumPy type of records; a field without a name is padding."""
    formats = [np.dtype((part.dtype, shape)) for _, part, shape in parts]
    starts = [*itertools.accumulate((f.itemsize for f in formats), initial=0)]
    named = [i for i, (name, _, _) in enumerate(parts) if name]
    return np.dtype(
        {
            "names": [parts[i][0] for i in named],
            "formats": [formats[i] for i in named],
            "offsets": [starts[i] for i in named],
            "itemsize": starts[-1],
        }
    )


def _fields(named: Named) -> list[tuple[str, Named, tuple[int, ...]]]:
    stated = named.configuration["fields"]
    if not isinstance(stated, list) or not stated:
        raise invalid("data type", named.name, "fields", "expected a list of at least one field")
    found: list[tuple[str, Named, tuple[int, ...]]] = []
    for i, field in enumerate(stated):
        if isinstance(field, (list, tuple)) and len(field) == 2:
            field = {"name": field[0], "data_type": field[1]}
        where = f"fields[{i}]"
        if not isinstance(field, dict) or not field.keys() <= {"name", "data_type", "shape"}:
            raise invalid("data type", named.name, where, "expected name and data_type")
        name, inner = field.get("name"), field.get("data_type")
        padding = name == "" and isinstance(inner, str) and PATTERN.fullmatch(inner)
        if not isinstance(name, str) or not (name or padding):
            raise invalid("data type", named.name, f"{where}.name", "expected a non-empty string")
        if name and any(name == known for known, _, _ in found):
            raise invalid("data type", named.name, f"{where}.name", f"{name!r} occurs twice")
        problems = Fields("", {}, [])
        found_type = as_named(problems, f"{where}.data_type", inner)
        if problems.problems:
            raise invalid("data type", named.name, f"{where}.data_type", "expected a data type")
        shape = field.get("shape", [])
        good = isinstance(shape, (list, tuple)) and all(type(n) is int and n > 0 for n in shape)
        if not good or math.prod(shape) >= 2**31:
            raise invalid("data type", named.name, f"{where}.shape", f"{shape!r} is not a shape")
        found.append((name, found_type, tuple(shape)))
    if not any(name for name, _, _ in found):
        raise invalid("data type", named.name, "fields", "expected a field that has a name")
    return found
