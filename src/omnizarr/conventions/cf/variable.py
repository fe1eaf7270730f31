"""Variables of CF datasets: decoded numbers, times and text.

Specification: CF conventions, section 2.2: the last dimension of a character variable is the length
of its strings. NetCDF's attribute ``_Encoding`` is their character encoding.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from omnizarr import Array, Group, View
from omnizarr.conventions.cf.packing import FILL, Packing, as_numbers, encode_fill
from omnizarr.conventions.cf.times import TICKS, UNITS, Times, is_time
from omnizarr.errors import InvalidArgument, InvalidMetadata, SelectionError, error_context
from omnizarr.extension import (
    ARRAY_DIMENSIONS,
    Shaped,
    as_plain,
    as_type,
    cast,
    is_masked_array,
    is_nczarr,
    location_of,
)

Values = npt.NDArray[Any]
TimesAs = Literal["auto", "cftime"] | None
ENCODING = "_Encoding"
_SCALAR = "_scalar_"  # NetCDF-C's name for the axis of a variable without dimensions


class Joined:
    """An array of single characters, presented as an array of strings along its last axis."""

    def __init__(self, letters: Array | View) -> None:
        self._letters = letters
        self.shape = letters.shape[:-1]
        self.dtype: np.dtype[Any] = np.dtype(f"S{max(1, letters.shape[-1])}")

    def __getitem__(self, selection: Any) -> Values:
        letters = np.ascontiguousarray(self._letters[self._with_all(selection)])
        if not letters.shape[-1]:
            return np.zeros(letters.shape[:-1], self.dtype)
        return letters.view(self.dtype)[..., 0]

    def __setitem__(self, selection: Any, values: Any) -> None:
        texts = np.asarray(values)
        if texts.dtype.kind != "S" or texts.dtype.itemsize > self.dtype.itemsize:
            raise InvalidArgument(
                f"expected strings of up to {self.dtype.itemsize} bytes, got {texts.dtype}"
            )
        letters = texts.astype(self.dtype, order="C").reshape(*texts.shape, 1).view("S1")
        self._letters[self._with_all(selection)] = letters

    @property
    def view(self) -> LazySelections:
        """Lazy selections: ``joined.view[...]``."""
        return LazySelections(lambda chosen: Joined(self._letters.view[self._with_all(chosen)]))

    def _with_all(self, selection: Any) -> tuple[Any, ...]:
        """Return a selection of strings as a selection of all their characters."""
        parts = selection if isinstance(selection, tuple) else (selection,)
        has_ellipsis = any(p is Ellipsis for p in parts)
        if len(parts) - has_ellipsis > len(self.shape):
            raise SelectionError(
                f"{len(parts)} indices for strings with {len(self.shape)} axes; single characters"
                " are in .array"
            )
        return (*parts, slice(None) if has_ellipsis else Ellipsis)


class LazySelections:
    """Turns indexing into a call of a function, which makes a lazy selection."""

    def __init__(self, select: Callable[[Any], Any]) -> None:
        self._select = select

    def __getitem__(self, selection: Any) -> Any:
        return self._select(selection)


def charset(attributes: Any, dtype: np.dtype[Any]) -> str | None:
    """Return the character encoding of bytes that are text, or None."""
    name = attributes.get(ENCODING)
    if dtype.kind != "S" or name is None:
        return None
    try:
        return codecs.lookup(str(name)).name
    except LookupError:
        raise InvalidMetadata(f"{ENCODING}: {name!r} is not an encoding") from None


def write_text(values: Values, encoding: str | None, dtype: np.dtype[Any]) -> Values:
    """Encode text as bytes; raise if a string is too long or cannot be encoded."""
    texts = values
    if values.dtype.kind in "OT":
        texts = cast(values, np.dtype(np.dtypes.StringDType())).astype(object).astype("U")
    if texts.dtype.kind == "U":
        try:
            texts = np.char.encode(texts, encoding or "ascii")
        except UnicodeEncodeError as e:
            raise InvalidArgument(
                f"{e.object!r} cannot be stored in {encoding or 'ascii'}; set the attribute"
                f" {ENCODING} = 'utf-8'"
            ) from e
    if texts.dtype.kind != "S":
        raise InvalidArgument(f"expected strings, got {texts.dtype}")
    longest = int(np.char.str_len(texts).max(initial=0))
    if longest > dtype.itemsize:
        raise InvalidArgument(f"a string has {longest} bytes, but at most {dtype.itemsize} fit")
    return np.asarray(texts.astype(dtype))


@dataclass(frozen=True)
class Decoding:
    """The conversion between stored and decoded values."""

    packing: Packing
    times: Times | None = None
    duration: str | None = None  # the unit of numbers that xarray wrote from timedelta64
    tick: str = "ns"  # NumPy's unit of decoded durations
    boolean: bool = False  # True for integers that xarray wrote from booleans
    encoding: str | None = None  # of bytes that are text

    @classmethod
    def of(
        cls,
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        fill: Any = None,
        times: TimesAs = "auto",
        valid_only: bool = True,
    ) -> Decoding:
        """Return the decoding described by attributes, for values of a stored type."""
        if times not in ("auto", "cftime", None):
            raise InvalidArgument(f"times must be 'auto', 'cftime' or None, got {times!r}")
        packing = Packing.of(dtype, attributes, fill, valid_only)
        if dtype.kind not in "iuf":
            return cls(packing, encoding=charset(attributes, dtype))
        written = str(attributes.get("dtype", ""))
        if times is not None and is_time(attributes):
            return cls(packing, Times.of(attributes, times == "cftime"))
        units = attributes.get("units")
        if times is not None and written.startswith("timedelta64") and units in UNITS:
            tick = written.removeprefix("timedelta64[").removesuffix("]")
            exact = tick in TICKS and UNITS[units] % TICKS[tick] == 0
            return cls(packing, duration=units, tick=tick if exact else "ns")
        return cls(packing, boolean=written == "bool" and dtype.kind in "iu")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of decoded values."""
        if self.times is not None:
            return self.times.dtype
        if self.duration is not None:
            return np.dtype(f"m8[{self.tick}]")
        if self.encoding is not None:
            return np.dtype(f"U{self.packing.stored.itemsize}")
        return np.dtype(bool) if self.boolean else self.packing.dtype

    def decode(self, stored: Any) -> Values:
        """Return decoded values."""
        values = np.asarray(stored)
        if self.boolean:
            return values.astype(bool)
        if self.encoding is not None:
            try:
                return np.asarray(np.char.decode(values, self.encoding)).astype(self.dtype)
            except UnicodeDecodeError as e:
                wrong = f"cannot decode the bytes {e.object!r} with {ENCODING} {self.encoding!r}"
                raise InvalidMetadata(f"{wrong}; .array reads bytes") from e
        if self.times is None and self.duration is None:
            return self.packing.decode(values)
        absent, numbers = self.packing.is_missing(values), self._unpacked(values)
        if self.times is not None:
            return self.times.decode(numbers, absent)
        numbers = np.where(absent, 0, numbers)
        length = UNITS[self.duration or ""] // TICKS[self.tick]
        for end in (numbers.min().item(), numbers.max().item()) if numbers.size else ():
            if not abs(end) * length < 2**63:
                raise InvalidMetadata(
                    f"{end} {self.duration} is out of the range of {self.dtype}; decode with"
                    " times=None"
                )
        exact = numbers.dtype.kind != "f"
        ticks = numbers.astype("i8") * length if exact else np.rint(numbers.astype("f8") * length)
        return np.where(absent, np.array("NaT", self.dtype), ticks.astype(self.dtype))

    def _unpacked(self, stored: Values) -> Values:
        """Return stored numbers in the units of times, unpacked or with their intended sign."""
        packing = self.packing
        return packing.decode(stored) if packing.packed else packing.as_seen(stored)

    def encode(self, values: Any) -> Values:
        """Return the values to store."""
        given = _given(values, self.packing.stored)
        if self.duration is not None or (self.times is not None and given.dtype.kind not in "iuf"):
            stored = self.packing.encode(*self._numbers(given))
            self.check_kept(given, stored)
            return stored
        if self.packing.stored.kind == "S":
            return write_text(given, self.encoding, self.packing.stored)
        if self.packing.stored.kind not in "iuf":
            return given
        return self.packing.encode(_numbers(given))

    def _numbers(self, values: Values) -> tuple[Values, npt.NDArray[np.bool_]]:
        """Return times or durations in the units, integers if all are whole, and a mask."""
        if self.times is not None:
            return self.times.encode(values)
        if values.dtype.kind != "m":
            raise InvalidArgument(f"expected durations (timedelta64), got {values.dtype}")
        unit, absent = UNITS[self.duration or ""], np.isnat(values)
        own = TICKS.get(np.datetime_data(values.dtype)[0], 1)
        name = next(name for name, length in TICKS.items() if length == min(own, unit))
        count = unit // TICKS[name]
        ticks = as_type(values, np.dtype(f"m8[{name}]")).view("i8")
        whole, rest = np.divmod(np.where(absent, 0, ticks), count)
        return (whole + rest / count if rest.any() else whole), absent

    def check_kept(self, values: Values, stored: Values) -> None:
        """Raise if stored numbers stand for other times or durations than the assigned ones.

        Floats may be rounded as 64 bits are, and packed numbers to a step; others must be exact.
        """
        numbers, absent = self._numbers(values)
        packing = self.packing
        missing = packing.is_missing(stored)
        if stored.dtype == np.dtype("i8"):  # what xarray makes of NaT, and reads
            missing = missing | (stored == np.iinfo("i8").min)
        found = self._unpacked(stored)
        if found.dtype.kind == "f":
            unit = self.times.unit if self.times is not None else UNITS[self.duration or ""]
            # Times that were read from floats are rounded to a tick of their own.
            slack = np.abs(numbers) * 2.0**-51 + 1000 / unit + abs(packing.scale or 0) / 2
            kept = np.abs(found - numbers) <= np.where(absent, 0, slack)
        else:
            kept = found == numbers
        wrong = np.where(absent | missing, absent != missing, ~kept)
        if wrong.any():
            units = self.duration if self.times is None else self.times.units
            raise InvalidArgument(
                f"{values[wrong].flat[0]} cannot be stored as {self.packing.stored} in {units!r};"
                " dtype 'int64' with finer units could hold it"
            )


def _given(values: Any, stored: np.dtype[Any]) -> Values:
    """Return assigned values as an array, in which masked ones are NaN, NaT or None."""
    if is_masked_array(values) and np.ma.getmaskarray(values).any():
        missing = {"f": np.nan, "m": "NaT", "M": "NaT"}.get(values.dtype.kind)
        out = np.array(np.ma.getdata(values), object if missing is None else None)
        out[np.ma.getmaskarray(values)] = missing
        return out
    is_text = stored.kind in "SUT" and not hasattr(values, "dtype")
    return np.asarray(values, object if is_text else None)  # NumPy makes text of mixed lists


def _numbers(values: Values) -> Values:
    """Return Python numbers in an array of objects as an array of numbers, where None is NaN."""
    if values.dtype.kind != "O":
        return values
    found = [np.nan if each is None else each for each in values.flat]
    try:
        return np.asarray(found).reshape(values.shape)
    except ValueError:  # objects that are arrays of several shapes
        return values


class Variable(Shaped):
    """A lazy view of an array: indexing reads decoded values, assignment stores encoded ones.

    `array` has the stored numbers; `attributes` are those of the array without dimension names.
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
        return self.array.path.rpartition("/")[2]

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the array, without dimension names and NCZarr's own."""
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
    def view(self) -> LazySelections:
        """Lazy selections: ``variable.view[...]``."""

        def part(selection: Any) -> Variable:
            names = _kept(self.dimensions, selection)
            return Variable(self.array, self._source.view[selection], names, self.decoding)

        return LazySelections(part)

    def read(self) -> Any:
        """Return all decoded values.

        Raises:
            ChunkError: If a chunk cannot be read or decoded.

        Examples:
            >>> oz.cf.decode(oz.create_array(data=[1, 2], attributes={"scale_factor": 0.5})).read()
            array([0.5, 1. ])
        """
        return self[...]

    def __getitem__(self, selection: Any) -> Any:
        return self.decoding.decode(as_plain(self._source[selection]))[()]

    def __setitem__(self, selection: Any, values: Any) -> None:
        self._source[selection] = self.decoding.encode(values)

    def _values(self) -> npt.NDArray[Any]:
        return np.asarray(self[...])

    def __repr__(self) -> str:
        axes = zip(self.dimensions or (None,) * self.ndim, self.shape, strict=True)
        shown = ", ".join(f"{n or '-'}: {k}" for n, k in axes)
        return f"<Variable {self.array.name}  ({shown}) {self.dtype}>"


def _kept(names: tuple[str | None, ...] | None, selection: Any) -> tuple[str | None, ...] | None:
    """Return the names of the axes that slices and integers keep; None for other selections."""
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
    """Return a lazy view of an array that decodes its values by its CF attributes.

    Supported are scale_factor, add_offset, _Unsigned, _FillValue, missing_value, valid_range,
    valid_min, valid_max, and times. Single characters are joined along the last axis.

    Args:
        array: The array.
        times: ``"auto"``: datetime64 if NumPy has the calendar, otherwise objects of cftime;
            ``"cftime"``: always objects of cftime; None: numbers.
        fill_value_is_missing: True if elements equal to the array's fill value are missing even
            without `_FillValue`. The default is True in versions 1 and 2, where xarray and NetCDF-C
            store it there, and False in the draft and version 3.
        valid_only: False to keep values outside the valid range, as xarray does; otherwise they are
            missing.
        inherited: Attributes that the array lacks, from the variable whose bounds it contains.

    Raises:
        InvalidMetadata: If an attribute is not valid.

    Examples:
        >>> a = oz.create_array(data=[0, 1], attributes={"units": "days since 2026-01-01"})
        >>> oz.cf.decode(a)[:].astype("M8[D]")
        array(['2026-01-01', '2026-01-02'], dtype='datetime64[D]')
    """
    if fill_value_is_missing is None:
        fill_value_is_missing = fill_is_missing(array)
    attributes = {**(inherited or {}), **array.attrs.asdict()}
    fill = array.fill_value if fill_value_is_missing else None
    fill = fill.item() if isinstance(fill, np.generic) else fill
    source, dimensions = _source(array)
    with error_context(f"{array.name} in {array.store!r}", catch=(InvalidMetadata,)):
        decoding = Decoding.of(source.dtype, attributes, fill, times, valid_only)
    return Variable(array, source, dimensions, decoding)


def fill_is_missing(node: Array | Group) -> bool:
    """Return True if xarray and NetCDF-C take fill values for missing: in versions 1 and 2."""
    return location_of(node).format.undefined_fill


# Attributes of where an array is, or of the group that it is part of; all others are of its values.
_OF_PLACE = re.compile(
    r"grid_mapping|_CRS|spatial:.*|proj:.*|coordinates|bounds|zarr_conventions|multiscales"
)


def described_values(
    source: Any, *, zero_is_missing: bool = True
) -> tuple[dict[str, Any], Packing]:
    """Return the attributes that tell what the numbers of an array mean, and their packing.

    The array is one of this package, of zarr-python or of h5py. In versions 1 and 2, xarray and
    GDAL take the fill value of an array with dimension names for missing; 0 is also the default.
    """
    array = source.array if isinstance(source, View) else source
    dtype = np.dtype(array.dtype)
    found: dict[str, Any] = {}
    for name, value in dict(getattr(array, "attrs", {})).items():
        plain: Any = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        if name == FILL and not isinstance(plain, str):
            plain = encode_fill(plain[0] if isinstance(plain, list) else plain, dtype)
        if not _OF_PLACE.fullmatch(name) and _is_json(plain):
            found[name] = plain
    if isinstance(array, Array) and fill_is_missing(array) and FILL not in found:
        fill = None if array.dimension_names is None else array.fill_value
        if fill is not None and (zero_is_missing or fill != 0):
            found[FILL] = encode_fill(fill, dtype)
    return plain_attributes(found), Packing.of(dtype, found)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):  # such as the references between HDF5 datasets
        return False
    return True


def _source(array: Array) -> tuple[Array | View | Joined, tuple[str | None, ...] | None]:
    """Return the array that a variable reads, and the names of its axes."""
    if is_scalar(array):
        return array.view[0], ()
    names = array.dimension_names if array.ndim else ()
    if array.dtype == np.dtype("S1") and array.ndim:
        return Joined(array), None if names is None else names[:-1]
    return array, names


def variable_attributes(array: Array) -> dict[str, Any]:
    """Return the attributes of a variable; a `_FillValue` in xarray's base64 form as a number."""
    found = plain_attributes(array.attrs.asdict())
    if isinstance(found.get(FILL), str) and array.dtype.kind == "f":
        found[FILL] = Packing.of(array.dtype, {FILL: found[FILL]}).missing[0]
    return found


def plain_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that NetCDF shows: not the dimension names, and not NCZarr's own."""
    shown = {k: v for k, v in attributes.items() if k != ARRAY_DIMENSIONS and not is_nczarr(k)}
    return as_numbers(shown)


def named_axes(array: Array) -> list[tuple[str | None, int]]:
    """Return name and length of every axis; none for a scalar variable of NetCDF-C."""
    if is_scalar(array):
        return []
    names = array.dimension_names or (None,) * array.ndim
    return list(zip(names, array.shape, strict=True))


def is_scalar(array: Array) -> bool:
    """Return True for a scalar variable of NetCDF-C, which is stored as an array of shape (1,)."""
    if array.shape != (1,):
        return False
    if array.dimension_names == (_SCALAR,):
        return True
    members = {**array.metadata.extra, **array.attrs}
    own = next((v for k, v in members.items() if k.lower() == "_nczarr_array"), None)
    return isinstance(own, dict) and (own.get("storage") == "scalar" or bool(own.get("scalar")))
