"""Write NetCDF4 files, with named dimensions, as xarray and the NetCDF library read them.

Values are written as they are stored, with the CF attributes that decode them. What NetCDF has no
type for is written as xarray does: booleans as bytes with the attribute `dtype`, times as integers
with units, text of fixed length as characters. Half precision becomes single precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import Array
from omnizarr.bulk.fill import cast
from omnizarr.conventions.cf.packing import FILL
from omnizarr.errors import CannotExpress, MissingModule
from omnizarr.extension import as_type, is_nczarr, paths
from omnizarr.interop.files.hdf5_writer import Hdf5Writer, WriteBox, writable
from omnizarr.interop.files.netcdf import RESERVED

try:
    import h5netcdf
    import h5py
except ImportError as e:
    raise MissingModule(f"NetCDF4 files need h5netcdf: pip install 'omnizarr[netcdf]' ({e})") from e

UNITS = {"D": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds",
         "us": "microseconds", "ns": "nanoseconds"}  # fmt: skip
_TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
_NAT = np.iinfo("i8").min


@dataclass
class NetcdfWriter(Hdf5Writer):
    """Write groups and arrays as a NetCDF4 file; a single array has the name "data"."""

    marked = "iuf"
    dimensions: dict[str, dict[str, int]] = field(default_factory=dict)  # of groups, by path

    def check(self) -> None:
        """Leave out what NetCDF does not have, such as types; find the dimensions of the rest."""
        for path, array in sorted(self.arrays.items(), key=lambda item: item[0].count("/")):
            try:
                self.stored_type(path, array)
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

    def stored_type(self, path: str, array: Array) -> Any:
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
        if dtype.str[1:] in _TYPES:
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
        for above in (group, *reversed(paths.ancestors(group))):
            length = self.dimensions.get(above, {}).get(name)
            if length is not None:
                return above, length
        return None

    def _is_unlimited(self, group: str, name: str) -> bool:
        """Return True if NCZarr lists a dimension of a group, or of one above it, as unlimited."""
        for above in (group, *reversed(paths.ancestors(group))):
            for key, value in self.groups.get(above, {}).items():
                known = is_nczarr(key) and isinstance(value, dict)
                listed = value.get("dimensions") if known else None
                if isinstance(listed, dict) and name in listed:
                    return isinstance(listed[name], dict) and bool(listed[name].get("unlimited"))
        return False

    def names(self, array: Array) -> tuple[str, ...]:
        """Return the names of an array's axes; those without a name have one by their length."""
        given = array.dimension_names or (None,) * array.ndim
        return tuple(n or f"dim_{length}" for n, length in zip(given, array.shape, strict=True))

    def prepare(self, file: str) -> None:
        """Make a file with all groups, dimensions, variables and attributes."""
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
        kind = self.stored_type(path, array)
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
        return array._location.format.undefined_fill

    def write_attributes(self, to: Any, attributes: Mapping[str, Any], path: str) -> None:
        """Store JSON attributes, without those whose names NetCDF reserves, and those of NCZarr."""
        own = {n: v for n, v in attributes.items() if n not in RESERVED and not is_nczarr(n)}
        super().write_attributes(to, own, path)

    def attribute(self, value: Any) -> Any:
        """Return an attribute as NetCDF takes it: it has no booleans."""
        if isinstance(value, bool):
            return np.int8(value)
        return super().attribute(value)

    def work(self, file: str, path: str, array: Array, sides: Any) -> WriteBox:
        """Return the work of one task."""
        return WriteVariable(array, file, self.places[path], self.type_of(array), sides)


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
        if dtype.kind in "TU":
            return self.encode_text(values)
        if dtype.kind in "Mm":
            plain = np.dtype(f"{dtype.kind}8[{_time_unit(dtype)}]")
            return as_type(values, plain).astype("i8")
        values = cast(values, dtype, self.array.name)
        if dtype.kind == "b":
            return values.astype("i1")
        if dtype.kind == "S" and dtype.itemsize > 1:
            fixed = np.ascontiguousarray(values)
            return fixed.view("S1").reshape(*fixed.shape, dtype.itemsize)
        return values
