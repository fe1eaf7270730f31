"""Variable: an array seen through its CF attributes, decoded when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.conventions.cf.decoding import Decoding, TimesAs
from omnizarr.conventions.cf.packing import FILL, Packing
from omnizarr.conventions.cf.text import Joined, is_letters
from omnizarr.errors import InvalidMetadata
from omnizarr.formats.dimensions import ATTRIBUTE, is_nczarr
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.lazy import Shaped
from omnizarr.hierarchy.view import View

_SCALAR = "_scalar_"  # what NetCDF-C calls the axis of a variable without dimensions


class Variable(Shaped):
    """A lazy view of an array: square brackets read decoded values, assignments store encoded ones.

    `array` has the stored numbers; `attributes` are all of the array's but those that name
    dimensions.
    """

    def __init__(
        self,
        array: Array,
        source: Array | View | Joined,
        dimensions: tuple[str | None, ...] | None,
        decoding: Decoding,
    ) -> None:
        self.array = array
        self.dimensions = dimensions
        self.decoding = decoding
        self._source = source

    @property
    def name(self) -> str:
        """The last part of the array's path."""
        return self.array.basename

    @property
    def attributes(self) -> dict[str, Any]:
        """What the array says of itself, without the names of dimensions and NCZarr's own."""
        return variable_attributes(self.array)

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        return self._source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of decoded values."""
        return self.decoding.dtype

    @property
    def view(self) -> Viewer:
        """Parts that are chosen now, read and decoded later."""
        return Viewer(self)

    def read(self) -> Any:
        """All decoded values."""
        return self[...]

    def __getitem__(self, selection: Any) -> Any:
        return self.decoding.decode(self._source[selection])[()]

    def __setitem__(self, selection: Any, values: Any) -> None:
        self._source[selection] = self.decoding.encode(values)

    def _values(self) -> npt.NDArray[Any]:
        return np.asarray(self[...])

    def __repr__(self) -> str:
        names = self.dimensions or (None,) * self.ndim
        axes = ", ".join(f"{n or '-'}: {k}" for n, k in zip(names, self.shape, strict=True))
        return f"<Variable {self.array.name}  {self.dtype} ({axes})>"


class Viewer:
    """Makes views of a variable in square brackets."""

    def __init__(self, variable: Variable) -> None:
        self._variable = variable

    def __getitem__(self, selection: Any) -> Variable:
        of = self._variable
        source = of._source.view[selection]
        return Variable(of.array, source, _kept(of.dimensions, selection), of.decoding)


def _kept(names: tuple[str | None, ...] | None, selection: Any) -> tuple[str | None, ...] | None:
    """The names of the axes that slices and integers leave; None for other selections."""
    if names is None:
        return None
    parts = list(selection) if isinstance(selection, tuple) else [selection]
    if not all(part is Ellipsis or isinstance(part, (slice, int, np.integer)) for part in parts):
        return None
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    at = next(i for i, part in enumerate(parts) if part is Ellipsis)
    parts[at : at + 1] = [slice(None)] * (len(names) - len(parts) + 1)
    return tuple(n for n, part in zip(names, parts, strict=True) if isinstance(part, slice))


def decode(
    array: Array,
    *,
    times: TimesAs = "auto",
    fill_value_is_missing: bool | None = None,
    valid_only: bool = True,
    inherited: Mapping[str, Any] | None = None,
) -> Variable:
    """A lazy view of an array with the values that its CF attributes mean.

    scale_factor, add_offset, _Unsigned, _FillValue, missing_value, valid_range, valid_min,
    valid_max and times are understood. Single bytes are joined along the last axis.

    times
        ``"auto"``: datetime64 where the calendar is that of NumPy's dates, else objects of
        cftime; ``"cftime"``: always those; None: the numbers.
    fill_value_is_missing
        Whether elements equal to the array's fill value are missing, though no `_FillValue`
        says so. By default True in versions 1 and 2, where xarray and NetCDF-C keep it there,
        and False in the draft and version 3.
    valid_only
        Whether values outside of the valid range are missing; xarray passes over it.
    inherited
        Attributes that count where the array has none of its own: those of the variable whose
        bounds it holds.
    """
    if fill_value_is_missing is None:
        fill_value_is_missing = array._location.format.undefined_fill
    attributes = {**(inherited or {}), **array.attrs.asdict()}
    fill = array.fill_value if fill_value_is_missing else None
    source, dimensions = _source(array)
    try:
        decoding = Decoding.of(
            source.dtype, attributes, None if fill is None else fill.item(), times, valid_only
        )
    except InvalidMetadata as e:
        raise InvalidMetadata(f"{array.name} in {array.store!r}: {e}") from e
    return Variable(array, source, dimensions, decoding)


def _source(array: Array) -> tuple[Array | View | Joined, tuple[str | None, ...] | None]:
    """What a variable reads, and the names of its axes."""
    if is_scalar(array):
        return array.view[0], ()
    names = array.dimension_names if array.ndim else ()
    if is_letters(array):
        return Joined(array), None if names is None else names[:-1]
    return array, names


def variable_attributes(array: Array) -> dict[str, Any]:
    """Attributes of a variable, a `_FillValue` in the base64 form of xarray as its number."""
    found = plain_attributes(array.attrs.asdict())
    if isinstance(found.get(FILL), str) and array.dtype.kind == "f":
        found[FILL] = Packing.of(array.dtype, {FILL: found[FILL]}).missing[0]
    return found


def plain_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a variable or group in the sense of NetCDF."""
    return {k: v for k, v in attributes.items() if k != ATTRIBUTE and not is_nczarr(k)}


def named_axes(array: Array) -> list[tuple[str | None, int]]:
    """Name and length of every axis; none where NetCDF-C stored a variable without dimensions."""
    if is_scalar(array):
        return []
    names = array.dimension_names or (None,) * array.ndim
    return list(zip(names, array.shape, strict=True))


def is_scalar(array: Array) -> bool:
    """Whether NetCDF-C stored a variable without dimensions, which Zarr shows with one of 1."""
    if array.shape != (1,):
        return False
    if array.dimension_names == (_SCALAR,):
        return True
    stated = {**array.metadata.extra, **array.attrs}
    own = next((v for k, v in stated.items() if k.lower() == "_nczarr_array"), None)
    return isinstance(own, dict) and (own.get("storage") == "scalar" or bool(own.get("scalar")))
