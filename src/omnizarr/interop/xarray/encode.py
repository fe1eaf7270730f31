"""Encode variables of xarray for storage: CF encoding, codecs, and options of new arrays.

Large variables of packed numbers are encoded part by part while they are stored. A dataset that was
read from Zarr is written with the chunks and codecs that it was read with, unless the caller passes
others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import lt
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
from xarray import conventions
from xarray.backends.common import ensure_dtype_not_object
from xarray.coding import strings

from omnizarr import Array, errors, registry
from omnizarr.conventions.cf.packing import find_word, mark_missing
from omnizarr.conventions.cf.times import Times, bounds_of, is_time
from omnizarr.conventions.cf.variable import Decoding, TimesAs
from omnizarr.errors import InvalidArgument
from omnizarr.extension import cast, specify, without_checksums
from omnizarr.interop.xarray.engine import missing_values, variable
from omnizarr.interop.zarr.library import own_options

_OPTIONS = {
    "chunks", "shards", "filters", "serializer", "compressors", "compressor", "order",
    "chunk_key_encoding", "dimension_separator", "object_codec", "write_empty_chunks",
    "cache_metadata", "fill_value",
}  # fmt: skip
LARGE = 2**25  # bytes above which numbers are encoded part by part; below, copying is faster
UNNAMED = "__values__"  # xarray's name for a variable whose name is None
_NAME = "__xarray_dataarray_name__"  # xarray's attribute for the name of a single array
_NETCDF_OPTIONS = {"chunksizes", "zlib", "complevel", "compression", "shuffle", "contiguous"}
_SOURCE_OPTIONS = {"source", "original_shape", "preferred_chunks"}
# Older releases of xarray have no separate list of coders for Zarr.
_CODERS = {"coders": conventions.ZARR_CODERS} if hasattr(conventions, "ZARR_CODERS") else {}  # type: dict[str, Any]


def dataset_of(array: xr.DataArray) -> xr.Dataset:
    """Return a dataset of one variable that `xarray.open_dataarray` converts back to the array.

    If the array has no name, or the name of one of its axes or coordinates, the name is stored in
    an attribute. xarray's own name for this case starts with "__", which version 3 reserves.
    """
    taken = {*array.coords, *array.dims}
    if array.name is not None and array.name not in taken:
        return array.to_dataset()
    free = next(name for i in range(len(taken) + 1) if (name := "array" + "_" * i) not in taken)
    dataset = array.to_dataset(name=free)
    dataset.attrs[_NAME] = array.name
    return dataset


def encoded_dataset(
    dataset: xr.Dataset, encoding: Mapping[str, Mapping[str, Any]] | None
) -> tuple[dict[str, xr.Variable], dict[str, Any]]:
    """Return the variables with the given encodings, and the attributes with the coordinates."""
    for name in dataset.variables:
        if name is not None and not isinstance(name, str):
            raise errors.WrongType(f"the name of a variable must be a string or None, got {name!r}")
        if name == "":
            raise errors.InvalidName("a variable has the empty name ''; rename it")
        if isinstance(name, str) and "/" in name:
            raise errors.InvalidName(
                f"the name {name!r} of a variable has a slash: it would be an array in a group, and"
                " no variable of the dataset when that is read; rename it"
            )
    _check_attributes("the dataset", dataset.attrs)
    for name, var in dataset.variables.items():
        _check_attributes(f"the variable {name!r}", var.attrs)
    variables, attributes = conventions.encode_dataset_coordinates(dataset)
    for name, given in (encoding or {}).items():
        if name not in variables:
            known = errors.known_names(name, variables)
            raise errors.NoSuchLabel(f"encoding for {name!r}, which is not a variable; {known}")
        if not isinstance(given, Mapping):
            raise InvalidArgument(f"encoding of {name!r} must be a dict of options, got {given!r}")
        variables[name].encoding = dict(given)
    return {UNNAMED if k is None else k: v for k, v in variables.items()}, attributes


def _check_attributes(where: str, attributes: Mapping[Any, Any]) -> None:
    """Raise if an attribute has text that would be read as a number."""
    for name, value in attributes.items():
        word = find_word(value)
        if word is not None:
            raise InvalidArgument(
                f"the attribute {name!r} of {where} has the text {word!r}, which stands for a"
                f" number in JSON and would be read as one; use {word.lower()!r} or other text"
            )


@dataclass(frozen=True, slots=True)
class Coded:
    """A variable in its stored form; with `encode`, its values are still to be encoded."""

    dims: tuple[Any, ...]
    dtype: np.dtype[Any]
    attrs: dict[Any, Any]
    encoding: dict[Any, Any]
    data: Any  # a NumPy or Dask array
    encode: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] | None = None
    given: bool = False  # True if the encoding is the caller's, not a file's

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def chunks(self) -> Any:
        """The lengths of the blocks along each axis; None if it is not a Dask array."""
        return getattr(self.data, "chunks", None)


def encoded(name: str, given: xr.Variable, stored: Mapping[str, Any] | None = None) -> Coded:
    """Encode a variable by its CF attributes: times as numbers, packing, missing values.

    `stored` are the attributes that it is read with, if these are not its own. Dask arrays are
    encoded block by block when they are computed, large variables part by part when they are
    stored; errors of the encoding are raised here, those of values then.
    """
    if not _by_parts(given):
        var = _encoded(name, given, stored)
        return Coded(var.dims, var.dtype, var.attrs, var.encoding, var.data)
    coding = {k: v for k, v in given.encoding.items() if k not in _OPTIONS | _SOURCE_OPTIONS}

    def encode(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        part = xr.Variable(given.dims, values, given.attrs, coding)
        return np.asarray(_encoded(name, part, stored).data)

    none = xr.Variable(given.dims, np.empty((0,) * given.ndim, given.dtype))
    none.attrs, none.encoding = given.attrs, given.encoding
    none = _encoded(name, none, stored)
    return Coded(given.dims, none.dtype, none.attrs, none.encoding, given.data, encode)


def _by_parts(given: xr.Variable) -> bool:
    """Return True if a variable can be encoded part by part with the same result, silently.

    Times, text and objects take units, lengths and types from all values.
    """
    if given.ndim == 0 or given.nbytes < LARGE or given.dtype.kind not in "biuf":
        return False
    encoding = given.encoding
    masked = any(encoding.get(k) is not None for k in ("_FillValue", "missing_value"))
    packed = any(encoding.get(k) is not None for k in ("scale_factor", "add_offset", "dtype"))
    if not (masked or packed) or "_Unsigned" in encoding or not isinstance(given.data, np.ndarray):
        return False
    dtype = np.dtype(encoding.get("dtype") or given.dtype)
    return dtype.kind in "fb" or (dtype.kind in "iu" and dtype.metadata is None and masked)


def _encoded(name: str, given: xr.Variable, stored: Mapping[str, Any] | None) -> xr.Variable:
    given = _checked(name, _without_missing(given), stored is not None)
    try:
        var = conventions.encode_cf_variable(given, name=name, **_CODERS)
    except KeyError as e:
        raise InvalidArgument(
            f"variable {name!r} cannot be encoded with units {given.encoding.get('units')!r}:"
            f" xarray does not know {e} for {given.dtype}; give other units"
        ) from e
    var = ensure_dtype_not_object(var, name=name)
    var = _with_checked_times(name, given, var, var.attrs if stored is None else stored)
    if var.dtype.kind == "T" and var.encoding.get("dtype") != "S1":
        return var
    var = strings.EncodedStringCoder(allows_unicode=True).encode(var, name=name)
    return strings.ensure_fixed_length_bytes(var)


def _with_checked_times(
    name: str, given: xr.Variable, var: xr.Variable, attributes: Mapping[str, Any]
) -> xr.Variable:
    """Return the variable if its encoded times or durations are read as the given ones, or raise.

    xarray rounds them, lets them wrap around, and counts in finer units than those of the array
    that it appends to.
    """
    with_units = var.dtype.kind in "iuf" and "units" in var.attrs and "units" not in given.attrs
    if given.dtype.kind not in "mMO" or not with_units:
        return var
    check = partial(_check_times, name=name, dtype=var.dtype, attributes=dict(attributes))
    if hasattr(var.data, "map_blocks"):
        data = var.data.map_blocks(check, given.data, dtype=var.dtype, meta=var.data._meta)
    else:
        data = check(np.asarray(var.data), np.asarray(given.data))
    return xr.Variable(var.dims, data, var.attrs, var.encoding)


def _check_times(
    numbers: npt.NDArray[Any],
    times: npt.NDArray[Any],
    name: str,
    dtype: np.dtype[Any],
    attributes: dict[str, Any],
) -> npt.NDArray[Any]:
    """Return the numbers in a type; raise if one of them stands for another time or duration."""
    with np.errstate(invalid="ignore"):
        numbers = numbers.astype(dtype, copy=False)  # Dask blocks have xarray's result type
    if times.dtype.kind == "m":  # NumPy's unit is of no account here
        attributes = {**attributes, "dtype": "timedelta64[ns]"}
    kind: TimesAs = "cftime" if times.dtype.kind == "O" else "auto"
    try:
        decoding = Decoding.of(numbers.dtype, attributes, times=kind, valid_only=False)
    except errors.InvalidMetadata:
        return numbers  # xarray knows more ways to write a date
    if decoding.times is None and decoding.duration is None:
        raise InvalidArgument(
            f"variable {name!r} has times or durations ({times.dtype}), but numbers in units"
            f" {attributes.get('units')!r} are stored; convert it first"
        )
    try:
        decoding.check_kept(times, numbers)
    except InvalidArgument as e:
        raise InvalidArgument(f"variable {name!r}: {e}") from e
    return numbers


def _checked(name: str, var: xr.Variable, whole: bool) -> xr.Variable:
    """Return a variable of numbers whose values fit the type that they are encoded as, or raise.

    xarray lets them wrap around, or become infinite. Those of Dask are checked when computed. With
    `whole`, those that are stored as integers as they are must be whole; else they are rounded.
    """
    coding = {**var.attrs, **var.encoding}
    dtype = np.dtype(var.dtype if coding.get("dtype") is None else coding["dtype"])
    if var.dtype.kind in "SU" and dtype.kind in "SU" and dtype != np.dtype("S1"):
        if not hasattr(var.data, "map_blocks"):
            cast(np.asarray(var.data), dtype, f" for variable {name!r}")  # xarray truncates it
        return var
    if var.dtype.kind not in "biuf" or dtype.kind not in "iuf":
        return var
    if dtype.kind in "iu" and coding.get("_Unsigned") in ("true", "false"):
        dtype = np.dtype(f"{'u' if coding['_Unsigned'] == 'true' else 'i'}{dtype.itemsize}")
    check = _Numbers(
        name,
        dtype,
        coding.get("dtype") is not None,
        coding.get("add_offset"),
        coding.get("scale_factor"),
        any(coding.get(k) is not None for k in ("_FillValue", "missing_value")),
        () if "_Unsigned" in coding else tuple(missing_values(var.encoding)),
        whole,
    )
    if not hasattr(var.data, "map_blocks"):
        check(np.asarray(var.data))
        return var
    data = var.data.map_blocks(check, dtype=var.dtype, meta=var.data._meta)
    return xr.Variable(var.dims, data, var.attrs, var.encoding)


@dataclass(frozen=True)
class _Numbers:
    """Checks the numbers of a variable, which are shifted, scaled and rounded for a type."""

    name: str
    dtype: np.dtype[Any]
    is_given: bool  # False if xarray chooses a type that fits
    add: Any
    factor: Any
    masks: bool  # True if numbers can be missing
    marks: tuple[Any, ...]  # stored numbers that mark missing values, but for NaN
    whole: bool  # True if numbers that are neither shifted nor scaled must not be rounded

    def __call__(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values unchanged; raise if one of them would be read as another value."""
        if values.size:
            if self.is_given:
                self._check_range(values)
            self._check_marks(values)
        return values

    def _check_range(self, values: npt.NDArray[Any]) -> None:
        offset, scale, dtype = self.add or 0, self.factor or 1, self.dtype
        if np.can_cast(values.dtype, dtype) and (offset, scale) == (0, 1):
            return
        integers = dtype.kind in "iu"
        if integers and not self.masks and values.dtype.kind == "f" and np.isnan(values).any():
            raise InvalidArgument(
                f"nan of variable {self.name!r} cannot be stored as {dtype}: give its encoding a"
                " _FillValue"
            )
        plain = self.add is None and self.factor is None
        if integers and self.whole and plain and values.dtype.kind == "f":
            broken = np.isfinite(values) & (np.rint(values) != values)
            if broken.any():
                raise InvalidArgument(
                    f"{values[broken].flat[0]} of variable {self.name!r} cannot be stored as"
                    f" {dtype} without scale_factor; an array of float64 could hold it"
                )
        bounds = np.iinfo(dtype) if integers else np.finfo(dtype)
        for end in (np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)):
            number = end.item()
            packed = number if (offset, scale) == (0, 1) else (number - offset) / scale
            packed = round(packed) if integers and math.isfinite(packed) else packed
            fits = int(bounds.min) <= packed <= int(bounds.max)
            if not fits and math.isfinite(number):  # NumPy warns of others
                raise InvalidArgument(
                    f"{number} of variable {self.name!r} cannot be stored as {dtype} with"
                    f" scale_factor {scale} and add_offset {offset}: the type has numbers from"
                    f" {bounds.min} to {bounds.max}; a wider type could hold it"
                )

    def _check_marks(self, values: npt.NDArray[Any]) -> None:
        """Raise if a value would be stored as a number that marks missing values."""
        scale = abs(self.factor or 1)
        step = scale / 2 if self.dtype.kind in "iu" and values.dtype.kind == "f" else 0
        for mark in self.marks:
            value = mark * (self.factor or 1) + (self.add or 0)
            clash = (values == value) if not step else np.abs(values - value) < step
            if clash.any():
                raise InvalidArgument(
                    f"{values[clash].flat[0]} of variable {self.name!r} would be read as missing:"
                    f" {mark} marks missing values; give another _FillValue, or None"
                )


def _without_missing(var: xr.Variable) -> xr.Variable:
    """Return variable-length text with "" for missing values, as xarray stores objects."""
    if var.dtype == object and getattr(var.encoding.get("dtype"), "kind", "") == "T":
        # Text of a file that has become objects; xarray would store None as "None".
        encoding = {k: v for k, v in var.encoding.items() if k != "dtype"}
        return xr.Variable(var.dims, var.data, var.attrs, encoding)
    if not hasattr(var.dtype, "na_object"):
        return var
    return xr.Variable(var.dims, _as_text(var.data), var.attrs, var.encoding)


def _as_text(values: Any) -> Any:
    if hasattr(values, "map_blocks"):
        return values.map_blocks(_as_text, dtype=np.dtypes.StringDType())
    objects = np.asarray(values).astype(object)
    objects[pd.isnull(objects)] = ""
    return objects.astype(np.dtypes.StringDType())


def encoded_all(
    variables: Mapping[str, xr.Variable], old: Mapping[str, Array], given: Iterable[str] = ()
) -> dict[str, Coded]:
    """Encode variables; existing ones are encoded like their stored arrays.

    Those whose names are `given` have an encoding of the caller.

    The bounds of times are encoded in the units of the times, since they are read with these.
    """
    links = {name: {**var.encoding, **var.attrs} for name, var in variables.items()}
    links |= {name: array.attrs.asdict() for name, array in old.items()}
    owners = {str(links[n].get(key)): n for n in links for key in ("bounds", "climatology")}
    found: dict[str, Coded] = {}
    for name in sorted(variables, key=lambda name: name in owners):
        var, owner = variables[name], owners.get(name)
        inherited: dict[str, Any] = {}
        if owner is not None:
            is_new = owner in found and owner not in old
            attributes = found[owner].attrs if is_new else links[owner]
            inherited = bounds_of({**attributes, "bounds": name}).get(name, {})
        if name in old:
            found[name] = encoded_like(name, var, old[name], inherited)
        else:
            found[name] = encoded(name, _in_units(var, inherited))
    for name in given:
        found[name] = _with_given_encoding(name, found[name])
    return {name: found[name] for name in variables}


def _in_units(var: xr.Variable, inherited: dict[str, Any]) -> xr.Variable:
    """Return new bounds with the units of their times, unless these cannot express them exactly."""
    if not inherited or var.dtype.kind not in "MO" or var.chunks or "units" in var.encoding:
        return var
    values = np.asarray(var.data)
    try:
        times = Times.of(inherited, objects=var.dtype == object)
        numbers, absent = times.encode(values)
        if (times.decode(numbers, absent) != values)[~absent].any():
            return var
    except (InvalidArgument, errors.InvalidMetadata):
        return var
    copy = var.copy(deep=False)
    copy.encoding = {**var.encoding, **inherited}
    if numbers.dtype.kind == "f":
        copy.encoding.setdefault("dtype", numbers.dtype)  # xarray warns if it has to choose
    return copy


def encoded_like(
    name: str, given: xr.Variable, array: Array, inherited: Mapping[str, Any]
) -> Coded:
    """Encode a variable like the stored array, with its axes in that order.

    `inherited` are attributes to use where the array has none.
    """
    stored = variable(name, array)
    stored.attrs = {**inherited, **stored.attrs}
    decoded = conventions.decode_cf_variables({name: stored}, {})[0][name]
    if given.dtype.kind == "T" and decoded.dtype.kind == "U":
        text = np.asarray(_without_missing(given).data).astype(object).astype(np.str_)
        given = given.copy(data=text)
        given = given.astype(np.result_type(given.dtype, decoded.dtype))
    fixed = given.dtype.kind in "SU"
    if fixed and decoded.dtype.kind not in "OT" and decoded.dtype != given.dtype:
        raise InvalidArgument(
            f"variable {name!r} has type {given.dtype}, but {decoded.dtype} is stored;"
            " convert it first, so that no text is truncated"
        )
    if set(given.dims) != set(stored.dims):
        raise InvalidArgument(
            f"variable {name!r} has dimensions {given.dims}, but {stored.dims} are stored"
        )
    if given.dtype.kind in "iuf" and not _has_units(given.attrs, stored.attrs):
        raise InvalidArgument(
            f"variable {name!r} has the units {given.attrs['units']!r}, but"
            f" {stored.attrs.get('units')!r} are stored; decode its times, or convert it first"
        )
    copy = given.transpose(*stored.dims).copy(deep=False)
    copy.encoding = {**inherited, **decoded.encoding}
    return encoded(name, copy, stored.attrs)


def _has_units(attributes: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """Return False for numbers since another date, in other units or another calendar."""
    keys = ("units", "calendar")
    if not is_time(attributes) or [*map(attributes.get, keys)] == [*map(stored.get, keys)]:
        return True
    if not is_time(stored):
        return False
    one, other = Times.of(attributes, objects=True), Times.of(stored, objects=True)
    numbers, absent = np.array([0, 1]), np.zeros(2, bool)
    try:
        return bool((one.decode(numbers, absent) == other.decode(numbers, absent)).all())
    except TypeError:  # dates of two calendars cannot be compared
        return False


def encoded_new(
    dataset: xr.Dataset, encoding: Mapping[str, Mapping[str, Any]] | None
) -> tuple[dict[str, Coded], dict[str, Any]]:
    """Encode all variables of a new dataset; return them and the attributes."""
    variables, attributes = encoded_dataset(dataset, encoding)
    return encoded_all(variables, {}, encoding or ()), attributes


def _with_given_encoding(name: str, var: Coded) -> Coded:
    """Mark a variable as one with the caller's encoding; raise if an option is unknown."""
    given = {k for k, v in var.encoding.items() if v is not None}
    unknown = sorted(given - _OPTIONS - _SOURCE_OPTIONS)
    if unknown:
        known = errors.known_names(unknown[0], sorted(_OPTIONS))
        netcdf = "; for NetCDF's chunksizes use chunks, for zlib use compressors"
        hint = netcdf if _NETCDF_OPTIONS & given else ""
        raise InvalidArgument(f"encoding of {name!r}: unknown {unknown}; {known}{hint}")
    return replace(var, given=True)


def _without_checksums(codecs: Iterable[Any], itemsize: int) -> Iterator[Any]:
    """Yield codecs without checksums; codecs that have none are passed on unchanged."""
    for codec in codecs:
        kept, left_out = without_checksums([specify.to_named(codec, itemsize)])
        yield from kept if left_out else (codec,)


def new_array(var: Coded, fill_masks: bool, checksums: bool) -> dict[str, Any]:
    """Return the options to create an array for an encoded variable.

    Without `checksums`, those of the variable's source are removed, but not those of the caller.
    """
    given = {k: v for k, v in var.encoding.items() if k in _OPTIONS and v is not None}
    options = own_options(given)
    for name in () if checksums or var.given else ("filters", "compressors"):
        if isinstance(options.get(name), list | tuple):
            options[name] = [*_without_checksums(options[name], var.dtype.itemsize)]
    attributes = dict(var.attrs)
    mark = attributes.pop("_FillValue", None)
    if fill_masks:
        if var.given and "fill_value" in options:
            raise InvalidArgument(
                f"encoding has fill_value={options['fill_value']!r}; in this format, the fill value"
                " marks missing values: give _FillValue instead"
            )
        options["fill_value"] = mark
    else:
        if mark is not None:
            mark_missing(attributes, mark, var.dtype)
        if var.dtype.kind == "f":
            options.setdefault("fill_value", np.nan)
    _choose_chunks(var, options)
    return {
        **options,
        "shape": var.shape,
        "dtype": str if strings.check_vlen_dtype(var.dtype) is str else var.dtype,
        "dimension_names": var.dims,
        "attributes": attributes,
    }


def _choose_chunks(var: Coded, options: dict[str, Any]) -> None:
    """Set the chunks: from the encoding, or else the blocks of a Dask array if they are regular.

    Blocks override chunks of the file that the variable was read from, but not the caller's.
    """
    wanted, blocks = options.get("chunks"), None
    if var.chunks:
        blocks = registry.load("omnizarr.interop.dask:regular_chunks")(var.chunks)
    fits = isinstance(wanted, int | str) or (wanted is not None and len(wanted) == len(var.dims))
    if not fits:
        options.pop("chunks", None)
        if blocks is not None:
            options["chunks"] = blocks
    elif blocks is not None and _has_file_chunks(var):
        _use_blocks(blocks, var.shape, options)


def _has_file_chunks(var: Coded) -> bool:
    """Return True if the chunks come from the file that the variable was read from."""
    encoding, stored = var.encoding, var.encoding.get("preferred_chunks")
    if var.given or not isinstance(stored, Mapping):
        return False
    whole = encoding.get("shards") or encoding["chunks"]
    return isinstance(whole, tuple | list) and [stored.get(d) for d in var.dims] == [*whole]


def _use_blocks(blocks: tuple[int, ...], shape: tuple[int, ...], options: dict[str, Any]) -> None:
    """Change chunks or shards to the blocks, unless they differ only by the end of an axis."""
    chunks, shards = options["chunks"], options.get("shards")
    for old in (shards, chunks):
        if old is None or not all(isinstance(n, int) for n in old):
            continue  # of a rectilinear grid
        if blocks == tuple(map(min, old, map(partial(max, 1), shape))):
            return
    if shards is None or any(map(lt, blocks, chunks)):
        options["chunks"] = blocks
        options.pop("shards", None)
    else:
        options["shards"] = tuple(-(-b // c) * c for b, c in zip(blocks, chunks, strict=True))
