"""Types made of others: records, and optional items.

Records are packed items of named fields, possibly nested; in versions 1 and 2 they may have
padding, a raw field without a name. Specification: registered extension ``struct`` (``structured``
is its older spelling), ``{"fields": [{"name": "x", "data_type": "float32"}, …]}``; in versions 1
and 2 a list of ``[name, type]`` or ``[name, type, shape]``; in the draft its struct extension.

Optional items may be missing, as in NumPy's masked arrays. Specification: zarrs, which writes
``zarrs.optional``, at first ``optional``, with the type of the values: ``{"name": "int32",
"configuration": {}}``. The fill value is null, for missing, or a list of one value.

The engine handles records of the fields ``data`` and ``mask``, or objects for types of variable
length; ``mask`` is true, or the object None, where there is no value, and ``data`` is zero there,
so that equal elements have equal bytes. `Masking` converts between these and masked arrays.
"""

from __future__ import annotations

import itertools
import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import registry
from omnizarr.concurrency.cache import Cache
from omnizarr.data_types.cast import is_missing
from omnizarr.data_types.data_type import DataType, Scalar, from_base64, old, to_base64, wrong
from omnizarr.data_types.flexible import PATTERN
from omnizarr.errors import InvalidMetadata, UnknownExtension
from omnizarr.model import Dialect, Named
from omnizarr.model.fields import Fields
from omnizarr.model.fields import named as as_named
from omnizarr.model.node import check_members, invalid

STRUCT_NAMES = ("struct", "structured")
OPTIONAL_NAMES = ("zarrs.optional", "optional")
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


# Optional items


def bind_optional(named: Named) -> DataType:
    """Return the data type for one of `OPTIONAL_NAMES`."""
    check_members(named, "data type", required=("name",), optional=("configuration",))
    name, configuration = named.configuration["name"], named.configuration.get("configuration", {})
    if not isinstance(name, str) or not name:
        raise invalid("data type", named.name, "name", f"expected a data type, got {name!r}")
    if not isinstance(configuration, dict):
        message = f"expected an object, got {configuration!r}"
        raise invalid("data type", named.name, "configuration", message)
    if name in OPTIONAL_NAMES:
        raise _refused(named, name, "a masked array has one mask, and no missing masks")
    inner = bind_name(Named(name, configuration))
    if inner.dtype.names is not None or name == "object":
        raise _refused(named, name, "masked arrays have a mask for each field of a structure")
    masking = Masking(inner)

    def decode(json: Any, dialect: Dialect) -> Any:
        if json is None:
            return masking.missing
        if not isinstance(json, list) or len(json) != 1:
            raise wrong(named, "null or a list of one value", json)
        return masking.scalar(inner.scalar(inner.decode(json[0], dialect)))

    def encode(value: Scalar, dialect: Dialect) -> Any:
        data, mask = masking.split_stored(value)
        return None if mask else [inner.encode(inner.scalar(data), dialect)]

    return DataType(named, masking.stored, decode, encode, zero=masking.missing, masking=masking)


def _refused(named: Named, inner: str, reason: str) -> UnknownExtension:
    return UnknownExtension(
        f"data type {named.name!r} of {inner!r} is not offered: {reason}",
        kind="data_type",
        name=named.name,
    )


@dataclass(frozen=True, slots=True)
class Masking:
    """Converts between the elements of an optional type and masked arrays of its values."""

    inner: DataType

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of masked arrays; strings of any length are objects there."""
        return np.dtype(object) if self.inner.variable else self.inner.dtype

    @property
    def stored(self) -> np.dtype[Any]:
        """The type of the elements as the engine handles them."""
        if self.inner.variable:
            return np.dtype(object)
        return np.dtype([("data", self.inner.dtype), ("mask", np.bool_)])

    @property
    def missing(self) -> Scalar:
        """A missing element, as the engine handles it."""
        return self.join(np.zeros((), self.inner.dtype), np.array(True)).reshape(())

    def scalar(self, value: Any) -> Scalar:
        """Return one element, as the engine handles it; None and ``np.ma.masked`` are missing."""
        if value is None or value is np.ma.masked:
            return self.missing
        return self.join(self.inner.scalar(value), np.array(False)).reshape(())

    def join(self, data: npt.NDArray[Any], mask: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        """Return elements for the engine from values and from where they are missing."""
        out = np.zeros(np.broadcast_shapes(data.shape, mask.shape), self.stored)
        if self.inner.variable:
            out[...] = data
            out[np.broadcast_to(mask, out.shape)] = None
        else:
            out["data"] = data
            out["mask"] = mask
            out["data"][out["mask"]] = np.zeros((), self.inner.dtype)
        return out

    def split_stored(self, stored: Any) -> tuple[Any, npt.NDArray[np.bool_]]:
        """Return values, and where they are missing, from elements as the engine has them."""
        if not self.inner.variable:
            return stored["data"], stored["mask"]
        items = np.asarray(stored, object)
        mask = _is_missing(items)
        data = np.empty(items.shape, object)
        data[...] = items
        data[mask] = self.inner.zero
        return data, mask

    def masked_array(self, stored: Any, fill: Scalar) -> Any:
        """Return a masked array, or a value or ``np.ma.masked``, from what the engine returned."""
        if not isinstance(stored, np.ndarray):
            return self.item(stored)
        data, mask = self.split_stored(stored)
        out = np.ma.MaskedArray(data.copy(order="K"), mask=mask.copy(order="K"))
        value, unset = self.split_stored(fill)
        if not unset and out.dtype.kind != "V":
            out.fill_value = value[()]
        return out

    def item(self, stored: Any) -> Any:
        """Return one value, or ``np.ma.masked``, of one element that the engine returned."""
        if stored is None or (not self.inner.variable and stored["mask"]):
            return np.ma.masked
        return stored if self.inner.variable else stored["data"]

    def split(self, value: Any) -> tuple[Any, Any]:
        """Return values, and where they are missing, from what a user assigns.

        Missing are the masked elements of a masked array, None, ``np.ma.masked`` and pandas' NA,
        also in lists; NaN and NaT, too, where the type of the values has none.
        """
        if value is None or value is np.ma.masked:
            return np.zeros((), self.inner.dtype), np.True_
        if hasattr(value, "__array__") and not isinstance(value, (np.ndarray, np.generic)):
            value = np.asanyarray(value[...])  # of a stored array, whose own __array__ is plain
        if isinstance(value, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(value)
            data = np.array(np.ma.getdata(value))
            data[mask] = self._blank(data.dtype)
            return data, mask
        nan = self.inner.dtype.kind in "biuSUTO"  # types that have no such value
        if not isinstance(value, np.ndarray) or value.dtype.kind in "OT":
            items = np.array(value, object)
            mask = _is_missing(items, nan)
            if mask.any():
                items[mask] = self._blank(items.dtype)
                return items, mask
        elif nan and value.dtype.kind == "f":
            mask = np.isnan(value)
            return np.where(mask, 0, value), mask
        return value, np.False_

    def _blank(self, dtype: np.dtype[Any]) -> Any:
        """Return what stands for a missing value among values of a type."""
        return self.inner.zero if dtype.hasobject else np.zeros((), dtype)


def _is_missing(items: npt.NDArray[Any], nan: bool = False) -> npt.NDArray[np.bool_]:
    """Return where items are missing; NaN and NaT are values unless `nan` is True."""
    number = () if nan else (numbers.Number, np.datetime64, np.timedelta64)
    found = np.frompyfunc(lambda item: is_missing(item) and not isinstance(item, number), 1, 1)
    return np.asarray(found(items), np.bool_)
