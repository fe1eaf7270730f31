"""The conventions of NetCDF4 in HDF5 files: dimensions, and attributes that programs do not see.

Specification: NetCDF-4 format, https://docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html

A dimension is a dataset that is a dimension scale, and arrays refer to the scales of their axes. A
scale that is only a dimension, not also a coordinate, is marked by its attribute NAME. An unlimited
dimension has the length of its longest variable; the others continue with their fill value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

_BARE = "This is a netCDF dimension but not a netCDF variable"
_RENAMED = "_nc4_non_coord_"  # of a variable that has the name of a dimension, but other axes
# Values that the NetCDF library gives for what was not written, by type.
_FILLS = {"i1": -127, "u1": 255, "i2": -32767, "u2": 65535, "i4": -(2**31) + 1, "u4": 2**32 - 1,
          "i8": -(2**63) + 2, "u8": 2**64 - 2, "f4": 2.0**122 * 1.875,
          "f8": 2.0**122 * 1.875}  # fmt: skip
_SCALE = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"}
_NETCDF = {"_NCProperties", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict", "_NCCOPY"}
RESERVED = frozenset(_SCALE | _NETCDF)  # names of attributes that users cannot have


@dataclass
class Conventions:
    """The conventions of one file."""

    netcdf: bool
    _names: dict[int, str] = field(default_factory=dict)  # of dimensions by their number
    _scales: dict[int, Any] = field(default_factory=dict)  # their identifiers in the file
    _lengths: dict[Any, int] = field(default_factory=dict)  # of unlimited dimensions

    @classmethod
    def of(cls, root: Any) -> Conventions:
        """Return the conventions of an open file."""
        found = cls("_NCProperties" in root.attrs or "_nc3_strict" in root.attrs)
        waiting, seen, variables = [root], {root.id}, []
        while waiting:
            group = waiting.pop()
            for name in group:
                if group.get(name, getclass=True, getlink=True).__name__ != "HardLink":
                    continue
                node = group.get(name)
                if hasattr(node, "dims"):
                    found._see(name, node)
                    variables.append(node)
                elif hasattr(node, "create_group") and node.id not in seen:
                    seen.add(node.id)
                    waiting.append(node)
        for variable in variables:
            found._measure(variable)
        return found

    def _see(self, name: str, dataset: Any) -> None:
        if is_scale(dataset):  # h5netcdf numbers other variables, too
            self.netcdf = True
            number = dataset.attrs.get("_Netcdf4Dimid")
            if number is not None:
                self._names.setdefault(int(number), name)
                self._scales.setdefault(int(number), dataset.id)
            if dataset.maxshape and dataset.maxshape[0] is None:
                self._lengths[dataset.id] = 0

    def _measure(self, dataset: Any) -> None:
        """Extend the unlimited dimensions of a variable to its length."""
        if not self.is_bare_dimension(dataset):
            for scale, length in zip(self._axes(dataset), dataset.shape or (), strict=False):
                if scale in self._lengths:
                    self._lengths[scale] = max(self._lengths[scale], length)

    def _axes(self, dataset: Any) -> list[Any]:
        """Return the identifiers of the scales of a dataset's axes; None where there is none."""
        found = [dim[0].id if len(dim) else None for dim in dataset.dims] if dataset.shape else []
        if found and is_scale(dataset) and not any(found):
            listed = _listed(dataset)
            found[0] = dataset.id
            return found if listed is None else [self._scales.get(n) for n in listed]
        return found

    def shape(self, dataset: Any) -> tuple[int, ...]:
        """Return the shape of a variable, with the lengths of unlimited dimensions."""
        sides = zip(self._axes(dataset), dataset.shape, strict=True)
        return tuple(self._lengths.get(scale, length) for scale, length in sides)

    def is_bare_dimension(self, dataset: Any) -> bool:
        """Return True if a dataset is only a dimension: it has a length, but no values."""
        return is_scale(dataset) and _text(dataset.attrs.get("NAME", "")).startswith(_BARE)

    def is_hidden(self, name: str, node: Any) -> bool:
        """Return True if an attribute belongs to the file format, not to the user."""
        if name in ("DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"):
            return True
        if name in _SCALE:
            return is_scale(node)
        return self.netcdf and name in _NETCDF

    def array_path(self, path: str) -> str:
        """Return the path of an array without the prefix that NetCDF puts before some names."""
        above, _, name = path.rpartition("/")
        if self.netcdf and name.startswith(_RENAMED):
            name = name.removeprefix(_RENAMED)
        return f"{above}/{name}" if above else name

    def dimension_names(self, dataset: Any) -> tuple[str | None, ...] | None:
        """Return the names of a dataset's axes; None if none has a name."""
        if not dataset.ndim:
            return () if self.netcdf else None
        names = [_name(dimension) for dimension in dataset.dims]
        if is_scale(dataset) and not any(names):
            names = self._own_names(dataset)
        return tuple(names) if any(names) else None

    def unlimited(self, dataset: Any) -> list[str]:
        """Return the names of a NetCDF dataset's axes that have no largest length."""
        largest = (dataset.maxshape or ()) if self.netcdf else ()
        names = self.dimension_names(dataset) or ()
        return [n for n, length in zip(names, largest, strict=False) if n and length is None]

    def _own_names(self, dataset: Any) -> list[str | None]:
        """Return the axes of a coordinate: its own name, or those that it lists."""
        own = dataset.name.rpartition("/")[2]
        listed = _listed(dataset)
        if listed is not None:
            return [self._names.get(n) for n in listed]
        return [own, *(None for _ in dataset.shape[1:])]


def padding(dtype: np.dtype[Any]) -> Any:
    """Return the value of a variable without a fill value after its end."""
    known = _FILLS.get(dtype.str[1:])
    return np.zeros((), dtype)[()] if known is None else dtype.type(known)


def _listed(dataset: Any) -> list[int] | None:
    """Return the numbers of the dimensions that a coordinate of several axes lists."""
    listed = dataset.attrs.get("_Netcdf4Coordinates")
    return None if listed is None or len(listed) != dataset.ndim else [int(n) for n in listed]


def is_scale(dataset: Any) -> bool:
    """Return True if a dataset is a dimension scale."""
    return hasattr(dataset, "dims") and _text(dataset.attrs.get("CLASS", "")) == "DIMENSION_SCALE"


def _name(dimension: Any) -> str | None:
    """Return the name of an axis: that of its first scale, or its label."""
    if len(dimension):
        path = dimension[0].name
        return path.rpartition("/")[2] if path else None
    return dimension.label or None


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
