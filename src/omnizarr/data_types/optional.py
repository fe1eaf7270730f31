"""Optional items: values that may be missing, as NumPy's masked arrays have them.

Specification: the documentation of zarrs, which writes them as ``zarrs.optional`` and, in its first
version, as ``optional``. Configuration: the type of the values, ``{"name": "int32",
"configuration": {}}``. The fill value is null if elements without a chunk are missing, else a list
of one value.

The engine handles records of the fields ``data`` and ``mask``, or objects for types of variable
length; ``mask`` is true, or the object None, where there is no value, and ``data`` is zero there,
so that equal elements have equal bytes. `Masking` converts between these and masked arrays.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.data_types.cast import is_missing
from omnizarr.data_types.data_type import DataType, Scalar, wrong
from omnizarr.data_types.struct import bind_name
from omnizarr.errors import UnknownExtension
from omnizarr.model import Dialect, Named
from omnizarr.model.node import check_members, invalid

OPTIONAL_NAMES = ("zarrs.optional", "optional")


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
