"""Write HDF5 and NetCDF4 files: groups, arrays, attributes, and names of dimensions.

Values are written as they are stored, with the CF attributes that decode them. The file is made
with all groups, datasets and attributes; then tasks write boxes of values. Each reads and decodes
its box in parallel with the others, but only one at a time has the file open.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import Array
from omnizarr.bulk.journal import Task, task_id
from omnizarr.bulk.tiles import chunk_axes, corners, item_bytes
from omnizarr.bulk.transfer import COPIES, Filled, cast, items_for
from omnizarr.conventions.cf.packing import FILL, NAMES, Packing, as_number, decode_fill
from omnizarr.conventions.cf.variable import fill_is_missing
from omnizarr.errors import CannotExpress, InvalidMetadata, StoreError
from omnizarr.extension import Boxes, as_plain, as_type, boxes, file_locks, is_nczarr, paths
from omnizarr.interop.files.contents import required
from omnizarr.interop.files.exporting import FileWriter
from omnizarr.interop.files.hdf5 import RESERVED

h5py = required("h5py", "hdf5")

UNITS = {"D": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds",
         "us": "microseconds", "ns": "nanoseconds"}  # fmt: skip
_NETCDF_TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
_NAT = np.iinfo("i8").min
LEVEL = 4  # of Deflate
# Attributes that have the type of the values, by CF and the NetCDF Users Guide.
_TYPED = ("missing_value", *NAMES, "flag_values", "flag_masks", "actual_range")
_LARGEST = 2**31  # bytes of a chunk that HDF5 handles in all versions


class _Target(io.FileIO):
    """A file for HDF5 that accepts every write, even if the disk is full.

    HDF5 ends the process if it cannot write what it still holds when it closes a file.
    """

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all bytes, or take note of the first failure."""
        rest = memoryview(data)
        try:
            while rest.nbytes and self.failure is None:
                rest = rest[super().write(rest) :]
        except OSError as e:
            self.failure = e
        return memoryview(data).nbytes

    def truncate(self, size: int | None = None) -> int:
        """Set the length, or take note of the first failure."""
        try:
            super().truncate(size)
        except OSError as e:
            self.failure = self.failure or e
        return self.tell() if size is None else size


@contextmanager
def writable(file: str, mode: str) -> Iterator[io.FileIO]:
    """Open a file for HDF5; on closing, raise StoreError if a write failed."""
    with _Target(file, mode) as target:
        try:
            yield target
        except Exception:
            if target.failure is None:
                raise  # else HDF5 did not find what it wrote
        if target.failure is not None:
            raise StoreError(f"cannot write {file!r}: {target.failure}") from target.failure


@dataclass(frozen=True)
class WriteBox:
    """Copy a box of an array into a dataset."""

    array: Array
    file: str
    name: str
    dtype: np.dtype[Any]
    sides: tuple[tuple[int, int], ...]

    def __call__(self) -> Filled:
        box = tuple(slice(*side) for side in self.sides)
        values = as_plain(self.array[box])
        stored = self.encode(values)
        folder = os.path.dirname(self.file)
        with (
            file_locks.locked_files(folder, [self.file], "export"),
            writable(self.file, "r+") as target,
            h5py.File(target, "r+") as opened,
        ):
            opened[self.name][box] = stored
        return Filled(bytes_read=values.nbytes)

    def encode(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values as h5py takes them."""
        if self.dtype.kind in "TU":
            found = np.asarray(values.astype(object))
            if any("\0" in text for text in found.flat):  # HDF5 would end it there
                raise CannotExpress(
                    f"{self.array.name} has text with the character \\0, at which text ends in"
                    " HDF5; replace it, or leave the array out with exclude="
                )
            return found
        values = cast(values, self.dtype, self.array.name)
        if self.dtype.kind in "Mm":
            return values.astype(h5py.opaque_dtype(self.dtype))
        return values


def _time_unit(dtype: np.dtype[Any]) -> str:
    """Return the unit in which times are stored: their own, or a finer one that NetCDF has."""
    unit = np.datetime_data(dtype)[0]
    if unit in UNITS:
        return unit
    return "D" if unit in ("Y", "M", "W") else "ns"


@dataclass(frozen=True)
class WriteVariable(WriteBox):
    """Copy a box of an array into a variable."""

    def encode(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values in a type that NetCDF has."""
        dtype = self.dtype
        if dtype.kind in "Mm":
            plain = np.dtype(f"{dtype.kind}8[{_time_unit(dtype)}]")
            return as_type(values, plain).astype("i8")
        values = super().encode(values)
        if dtype.kind == "b":
            return values.astype("i1")
        if dtype.kind == "S" and dtype.itemsize > 1:
            fixed = np.ascontiguousarray(values)
            return fixed.view("S1").reshape(*fixed.shape, dtype.itemsize)
        return values


@dataclass
class Hdf5Writer(FileWriter):
    """Write groups and arrays as an HDF5 file; a single array has the name "data"."""

    places: dict[str, str] = field(default_factory=dict)  # names of the datasets, by path

    marked = "iufcS"  # kinds of types with a `_FillValue` of the type
    box = WriteBox  # the work of a task

    def check(self) -> None:
        """Leave out arrays of types that HDF5 does not have."""
        for path, array in list(self.arrays.items()):
            try:
                self.stored_type(array)
                self.attributes_and_fill(path, array)
            except CannotExpress as e:
                self.leave_out(path, str(e))

    def stored_type(self, array: Array) -> Any:
        """Return the type of a dataset; raise if there is none."""
        dtype = self.type_of(array)
        if dtype.kind in "TU":
            return h5py.string_dtype()
        if dtype.kind == "O":
            raise CannotExpress("byte strings of variable length cannot be exported")
        if dtype.kind in "Mm":
            return h5py.opaque_dtype(dtype)
        try:
            h5py.h5t.py_create(dtype, logical=True)
        except (TypeError, ValueError) as e:
            raise CannotExpress(f"HDF5 has no type for {dtype}: {e}") from e
        return dtype

    def prepare(self, file: str) -> None:
        """Make a file with all groups, datasets and attributes."""
        with writable(file, "w+") as target, h5py.File(target, "w") as opened:
            for path, attributes in self.groups.items():
                group = opened.require_group(f"/{path}")
                self.write_attributes(group.attrs, attributes, path)
            for path, array in self.arrays.items():
                name = f"/{path}" if path else "/data"
                self.places[path] = name
                dataset = self._create(opened, name, path, array)
                own, missing = self.attributes_and_fill(path, array)
                self.write_attributes(dataset.attrs, own, path)
                if missing is not None:
                    dataset.attrs[FILL] = missing
                for axis, label in enumerate(array.dimension_names or ()):
                    if label:
                        dataset.dims[axis].label = label

    def _create(self, opened: Any, name: str, path: str, array: Array) -> Any:
        dtype = self.stored_type(array)
        options = self.layout(array)
        fill = array.fill_value
        if fill is not None and np.dtype(dtype).kind in "biufcS":
            options["fillvalue"] = cast(np.asarray(fill), np.dtype(dtype), array.name)[()]
        return opened.create_dataset(name, array.shape, dtype, **options)

    def attributes_and_fill(self, path: str, array: Array) -> tuple[dict[str, Any], Any]:
        """Return the attributes of a dataset, and its `_FillValue` in its type, or None.

        The attributes have a `_FillValue` that is no number of the array.
        """
        attributes = self.attributes_of(array)
        dtype = self.type_of(array)
        if dtype.kind not in self.marked or array.dtype.kind == "b":
            return attributes, None
        stored = self.stored_type(array)
        fill = self._missing(path, array, attributes, stored)
        if stored.kind in "iuf":
            attributes |= _typed(attributes, stored)
        return attributes, fill

    def _missing(
        self, path: str, array: Array, attributes: dict[str, Any], stored: np.dtype[Any]
    ) -> Any:
        """Take `_FillValue` out of attributes, and return it in the type of the dataset, or None.

        If a fill value marks missing values, too, it becomes `missing_value`.
        """
        where = path or "/"
        given, fill = attributes.pop(FILL, None), None
        if given is not None:
            fill = _stored_fill(array, given, stored)
            if fill is None:
                self.skipped[f"{where}@{FILL}"] = f"{given!r} is no value of the type {array.dtype}"
        own = array.fill_value if stored.kind != "S" and self.fill_marks(array) else None
        if own is None or (own != own and fill is not None):  # NaN is missing in any case
            return fill
        number = _fitting(own, stored)
        if number is None:
            self.skipped[f"{where}@fill_value"] = f"{own} is no value of the type {stored}"
        elif fill is None:
            fill = number
        elif fill != number:
            listed = np.ravel(attributes.setdefault("missing_value", number)).tolist()
            if number not in listed:
                self.skipped[f"{where}@fill_value"] = (
                    f"{own} also marks missing values, but there is another {FILL} and"
                    " missing_value"
                )
        return fill

    def fill_marks(self, array: Array) -> bool:
        """Return True if the fill value of an array marks missing values, as xarray reads it."""
        return fill_is_missing(array) and array.dimension_names is not None

    def layout(self, array: Array) -> dict[str, Any]:
        """Return the options of a dataset for chunks and compression."""
        shape = array.shape
        if not shape or 0 in shape:
            return {}
        sizes = array.chunks
        regular = all(isinstance(c, int) for c in sizes)
        options: dict[str, Any] = {"chunks": True}
        if regular and math.prod(sizes) * item_bytes(array.dtype) < _LARGEST:
            options["chunks"] = tuple(min(c, n) for c, n in zip(sizes, shape, strict=True))
        if self.compression is not None:
            options |= {"compression": "gzip", "compression_opts": LEVEL, "shuffle": True}
        return options

    def write_attributes(self, to: Any, attributes: Mapping[str, Any], path: str) -> None:
        """Store JSON attributes; what HDF5 has no type for is stored as JSON text."""
        for name, value in attributes.items():
            stored = self.attribute(as_number(value))
            if stored is None:
                self.notes.append(f"the attribute {name!r} of /{path} is stored as JSON text")
                stored = json.dumps(value)
            try:
                to[name] = stored
            except (OSError, ValueError, TypeError, RuntimeError) as e:
                self.skipped[f"{path or '/'}@{name}"] = f"the attribute cannot be stored: {e}"

    def attribute(self, value: Any) -> Any:
        """Return an attribute as h5py takes it, or None if there is no type for it."""
        if isinstance(value, (np.generic, np.ndarray)):
            return value
        if isinstance(value, str):
            return value if "\0" not in value else None
        if isinstance(value, bool):
            return np.bool_(value)
        if isinstance(value, int):
            if value >= 2**63:
                return np.uint64(value) if value < 2**64 else None
            return np.int64(value) if value >= -(2**63) else None
        if isinstance(value, float):
            return np.float64(value)
        if not isinstance(value, list) or not value:
            return None
        items = [self.attribute(v) for v in value]
        kinds = {type(v) for v in items}
        if kinds == {np.int64, np.float64} and all(float(v) == v.item() for v in items if v == v):
            return np.array(items, np.float64)
        if kinds == {np.int64, np.uint64} and min(value) >= 0:
            return np.array(value, np.uint64)
        if len(kinds) != 1 or kinds & {np.ndarray, list, type(None)}:
            return None
        return items if kinds == {str} else np.array(items)

    @property
    def count(self) -> int:
        """The number of boxes of all arrays."""
        return sum(self._boxes(array).count for array in self.arrays.values())

    def _boxes(self, array: Array) -> Boxes:
        """Return boxes of whole chunks that cover an array."""
        return boxes.cut(chunk_axes(array), items_for(self.memory, array.dtype, COPIES))

    def tasks(self, file: str) -> Iterator[Task[Filled]]:
        """Yield a task for each box of whole chunks."""
        for path, array in self.arrays.items():
            for box in self._boxes(array):
                sides = corners(box)
                size = math.prod(b - a for a, b in sides) * item_bytes(array.dtype)
                work = self.box(array, file, self.places[path], self.type_of(array), sides)
                yield Task(task_id("export", path, sides), work, size, array.name)


def _stored_fill(array: Array, given: Any, stored: np.dtype[Any]) -> Any:
    """Return the attribute `_FillValue` in the type of a dataset; None if it does not fit."""
    attributes = {FILL: given, "_Unsigned": array.attrs.get("_Unsigned")}
    try:
        if array.dtype.kind in "iu":
            found = Packing.of(array.dtype, attributes, valid_only=False).missing
            return _fitting(found[0], stored) if len(found) == 1 else None
        number = decode_fill(given, array.dtype)
    except InvalidMetadata:
        return None
    return np.bytes_(number) if stored.kind == "S" else _fitting(number, stored)


def _typed(attributes: Mapping[str, Any], stored: np.dtype[Any]) -> dict[str, Any]:
    """Return the attributes that have the type of the values, if the type holds them exactly."""
    found: dict[str, Any] = {}
    packed = "scale_factor" in attributes or "add_offset" in attributes
    span = 2 ** (8 * stored.itemsize)
    shifts = (0, -span, span) if stored.kind in "iu" and "_Unsigned" in attributes else (0,)
    for name in _TYPED:
        value = as_number(attributes.get(name))
        items = value if isinstance(value, list) else [value]
        # Of packed numbers, such a range is one of unpacked values.
        unpacked = packed and (name == "actual_range" or float in map(type, items))
        if unpacked or not {*map(type, items)} <= {int, float}:
            continue
        choices = ((_exactly(v + shift, stored) for shift in shifts) for v in items)
        typed = [next((v for v in some if v is not None), None) for some in choices]
        if typed and None not in typed:
            found[name] = np.array(typed, stored) if isinstance(value, list) else typed[0]
    return found


def _exactly(value: int | float, dtype: np.dtype[Any]) -> Any:
    """Return a number in a type that holds exactly this number; None if it does not."""
    try:
        found = _fitting(value, dtype)
    except (OverflowError, TypeError):  # of integers of more than 64 bits
        return None
    return found if found is not None and (found.item() == value or value != value) else None


def _fitting(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number in another type; None if that cannot hold it."""
    with np.errstate(all="ignore"):
        found = np.asarray(value).astype(dtype)[()]
    if dtype.kind in "fc":
        return found if np.isinf(found) == np.isinf(value) else None
    return found if int(found) == value else None


@dataclass
class NetcdfWriter(Hdf5Writer):
    """Write groups and arrays as a NetCDF4 file; a single array has the name "data".

    What NetCDF has no type for is written as xarray does: booleans as bytes with the attribute
    `dtype`, times as integers with units, text of fixed length as characters. Half precision
    becomes single precision.
    """

    marked = "iuf"
    box = WriteVariable
    dimensions: dict[str, dict[str, int]] = field(default_factory=dict)  # of groups, by path

    def check(self) -> None:
        """Leave out what NetCDF does not have, such as types; find the dimensions of the rest."""
        required("h5netcdf", "netcdf")
        for path, array in sorted(self.arrays.items(), key=lambda item: item[0].count("/")):
            try:
                self.stored_type(array)
                self._define(path, array)
            except CannotExpress as e:
                self.leave_out(path, str(e))
        for above in {"", *(p.rpartition("/")[0] for p in self.arrays)}:
            for group in (above, *paths.ancestors(above)):
                self.groups.setdefault(group, {})
        self._check_groups()
        attributes = {p: array.attrs.asdict() for p, array in self.arrays.items()}
        for path, names in (*self.groups.items(), *attributes.items()):
            for name in RESERVED.intersection(names):
                self.skipped[f"{path or '/'}@{name}"] = "NetCDF reserves this name"
        for path, array in self.arrays.items():
            self.attributes_and_fill(path, array)

    def _check_groups(self) -> None:
        """Leave out groups that have the name of a dimension beside them."""
        for group in sorted(self.groups):
            above, _, name = group.rpartition("/")
            if group in self.groups and group and name in self.dimensions.get(above, {}):
                self.leave_out(group, f"a dimension beside it has the same name, {name!r}")
                for path in [p for p in self.arrays if p.startswith(f"{group}/")]:
                    self.leave_out(path, f"its group {group!r} has the name of a dimension")
                for path in [p for p in self.groups if f"{p}/".startswith(f"{group}/")]:
                    del self.groups[path]

    def stored_type(self, array: Array) -> Any:
        """Return the NumPy type of a variable; raise if there is none."""
        dtype = self.type_of(array)
        if dtype.kind in "TU":
            return h5py.string_dtype()
        if dtype.kind == "S":
            return np.dtype("S1")
        if dtype.kind == "b":
            return np.dtype("i1")
        if dtype.kind == "m" and np.datetime_data(dtype)[0] in ("Y", "M"):
            raise CannotExpress(f"{dtype}: NetCDF counts days, and years and months have no fixed"
                                " number of them; .h5 files may hold it")  # fmt: skip
        if dtype.kind in "Mm":
            return np.dtype("i8")
        if dtype == np.float16:
            return np.dtype("f4")
        if dtype.str[1:] in _NETCDF_TYPES:
            return dtype
        raise CannotExpress(f"NetCDF has no type for {dtype}; .h5 files may hold it")

    def _define(self, path: str, array: Array) -> None:
        """Define the dimensions of an array in its group, unless a group above has them."""
        group = path.rpartition("/")[0]
        for name, length in zip(self.names(array), array.shape, strict=True):
            found = self._find(group, name)
            if found is not None and found[1] == length:
                continue
            if found is not None and found[0] == group:
                raise CannotExpress(
                    f"its dimension {name!r} has length {length}, but another array of the group"
                    f" has {found[1]}, which NetCDF does not allow"
                )
            self.dimensions.setdefault(group, {})[name] = length

    def _find(self, group: str, name: str) -> tuple[str, int] | None:
        for above in _upwards(group):
            length = self.dimensions.get(above, {}).get(name)
            if length is not None:
                return above, length
        return None

    def _is_unlimited(self, group: str, name: str) -> bool:
        """Return True if NCZarr lists a dimension of a group, or of one above it, as unlimited."""
        for above in _upwards(group):
            for key, value in self.groups.get(above, {}).items():
                known = is_nczarr(key) and isinstance(value, dict)
                listed = value.get("dimensions") if known else None
                if isinstance(listed, dict) and name in listed:
                    return isinstance(listed[name], dict) and bool(listed[name].get("unlimited"))
        return False

    def names(self, array: Array) -> tuple[str, ...]:
        """Return the names of an array's axes; an unnamed axis is named after its length."""
        given = array.dimension_names or (None,) * array.ndim
        return tuple(n or f"dim_{length}" for n, length in zip(given, array.shape, strict=True))

    def prepare(self, file: str) -> None:
        """Make a file with all groups, dimensions, variables and attributes."""
        h5netcdf = required("h5netcdf", "netcdf")
        with writable(file, "w+") as target, h5netcdf.File(target, "w") as opened:
            for path in sorted(self.groups, key=lambda p: (p.count("/"), p)):
                group = opened.create_group(path) if path else opened
                for name, length in self.dimensions.get(path, {}).items():
                    unlimited = self._is_unlimited(path, name)
                    group.dimensions[name] = None if unlimited else length
                    if unlimited:
                        group.resize_dimension(name, length)
                self.write_attributes(group.attrs, self.groups[path], path)
            for path, array in self.arrays.items():
                self._create_variable(opened, path, array)

    def _create_variable(self, opened: Any, path: str, array: Array) -> None:
        dtype = self.type_of(array)
        attributes, fill = self.attributes_and_fill(path, array)
        dimensions, options = self.names(array), self.layout(array)
        if dtype.kind == "S" and dtype.itemsize > 1:
            name = f"string{dtype.itemsize}"
            dimensions = (*dimensions, name)
            if name not in opened.dimensions:
                opened.dimensions[name] = dtype.itemsize
            if isinstance(options.get("chunks"), tuple):
                options["chunks"] = (*options["chunks"], dtype.itemsize)
        kind = self.stored_type(array)
        variable = opened.create_variable(
            f"/{path or 'data'}", dimensions, kind, fillvalue=fill, **options
        )
        self.places[path] = variable._h5ds.name
        self.write_attributes(variable.attrs, attributes, path)

    def attributes_and_fill(self, path: str, array: Array) -> tuple[dict[str, Any], Any]:
        """Return the attributes of a variable, and its `_FillValue` or None."""
        attributes, fill = super().attributes_and_fill(path, array)
        dtype, given = self.type_of(array), attributes.pop(FILL, None)
        if dtype.kind in "Mm":
            unit = _time_unit(dtype)
            attributes["units"] = UNITS[unit]
            if dtype.kind == "M":
                attributes["units"] += " since 1970-01-01"
                attributes["calendar"] = "proleptic_gregorian"
            else:  # xarray takes numbers with this attribute for durations
                attributes["dtype"] = f"timedelta64[{unit if unit[-1] == 's' else 's'}]"
            return attributes, np.int64(_NAT)
        if dtype.kind == "b":
            attributes.setdefault("dtype", "bool")
        if given is not None:
            self.skipped[f"{path or '/'}@{FILL}"] = f"a variable of {dtype} has none in NetCDF"
        return attributes, fill

    def fill_marks(self, array: Array) -> bool:
        """Return True if the fill value marks missing values; axes without names get some."""
        return fill_is_missing(array)

    def write_attributes(self, to: Any, attributes: Mapping[str, Any], path: str) -> None:
        """Store JSON attributes, except NCZarr's and the names that NetCDF reserves."""
        own = {n: v for n, v in attributes.items() if n not in RESERVED and not is_nczarr(n)}
        super().write_attributes(to, own, path)

    def attribute(self, value: Any) -> Any:
        """Return an attribute as NetCDF takes it: it has no booleans."""
        if isinstance(value, bool):
            return np.int8(value)
        return super().attribute(value)


def _upwards(group: str) -> list[str]:
    """Return the path of a group and those above it, up to the root."""
    return [group, *reversed(paths.ancestors(group))]
