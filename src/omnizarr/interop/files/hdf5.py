"""HDF5 files, and NetCDF4 files, which are HDF5: their groups, arrays and attributes.

Specifications: https://support.hdfgroup.org/documentation/hdf5/latest/_s_p_e_c.html, and NetCDF-4
format, https://docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html

Chunks are those of the file. Enumerated types become integers, with the CF attributes `flag_values`
and `flag_meanings`; strings of variable length, and those of UTF-8, become text. What Zarr cannot
hold is listed with the reason: references, arrays of variable length, links to other files.

A dimension of NetCDF4 is a dataset that is a dimension scale, and arrays refer to the scales of
their axes. A scale that is only a dimension, not also a coordinate, is marked by its attribute
NAME. An unlimited dimension has the length of its longest variable; the others continue with their
fill value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import recfunctions

from omnizarr.errors import CannotExpress, InvalidArgument, OmnizarrError, StoreError
from omnizarr.interop.files.contents import ArrayEntry, Box, Contents, native, required

h5py = required("h5py", "hdf5")

Note = Callable[[str], None]
_FILTERS = {4: "szip", 5: "nbit", 6: "scaleoffset", 307: "bzip2", 32000: "lzf", 32001: "blosc",
            32004: "lz4", 32008: "bitshuffle", 32013: "zfp", 32015: "zstd", 32017: "sz",
            32023: "jpegxl", 32024: "sz3", 32026: "blosc2"}  # fmt: skip
_BARE = b"This is a netCDF dimension but not a netCDF variable"
_RENAMED = "_nc4_non_coord_"  # of a variable that has the name of a dimension, but other axes
# Values that the NetCDF library gives for what was not written, by type.
_FILLS = {"i1": -127, "u1": 255, "i2": -32767, "u2": 65535, "i4": -(2**31) + 1, "u4": 2**32 - 1,
          "i8": -(2**63) + 2, "u8": 2**64 - 2, "f4": 2.0**122 * 1.875,
          "f8": 2.0**122 * 1.875}  # fmt: skip
_SCALE = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"}
_NETCDF = {"_NCProperties", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict", "_NCCOPY"}
RESERVED = frozenset(_SCALE | _NETCDF)  # names of attributes that users cannot have


@dataclass(frozen=True)
class DatasetValues:
    """The values of a dataset, and those after its end along unlimited dimensions."""

    file: str
    path: str
    text: bool
    dtype: Any
    after: Any = None

    def read(self, box: Box) -> npt.NDArray[Any]:
        """Return the values in a box."""
        with open_file(self.file) as opened, reading(self.file, self.path):
            dataset = opened[self.path]
            rank = dataset.ndim
            try:
                # ASCII is UTF-8, and UTF-8 is often labelled as ASCII.
                values = (dataset.asstr("utf-8") if self.text else dataset)[box[:rank]]
            except UnicodeDecodeError as e:
                raise InvalidArgument(
                    f"{self.file}:{self.path} has text that is not UTF-8: {e.reason} at byte"
                    f" {e.start} of {bytes(e.object)[:40]!r}; leave the array out with exclude="
                ) from e
            values = np.asarray(values, object if self.text else None)
            if self.after is not None:
                lengths = (side.stop - side.start for side in box[:rank])
                rest = (*lengths, *values.shape[rank:])
                padded: npt.NDArray[Any] = np.full(rest, self.after, values.dtype)
                padded[tuple(slice(0, n) for n in values.shape)] = values
                values = padded
            inner: Any = (..., *box[rank:])
            values = values[inner] if len(box) > rank else values
            if self.text:
                return values.astype(np.dtypes.StringDType())
            return values.astype(self.dtype, copy=False)


@contextmanager
def open_file(file: str) -> Iterator[Any]:
    """Open a file for reading; raise InvalidArgument if it is damaged."""
    try:
        opened = h5py.File(file, "r")
    except BlockingIOError as e:
        raise StoreError(f"{file!r} is being written by another process; try again later") from e
    except FileNotFoundError:
        raise
    except (OSError, RuntimeError, ValueError) as e:
        raise InvalidArgument(f"{file!r} is damaged or no HDF5 file: {e}") from e
    with opened:
        yield opened


@contextmanager
def reading(file: str, path: str) -> Iterator[None]:
    """Turn errors of h5py into a `StoreError` that says what could not be read."""
    try:
        yield
    except OmnizarrError:
        raise
    except (OSError, RuntimeError, ValueError, TypeError, KeyError) as e:
        raise StoreError(f"cannot read {path} of {file!r}: {e}") from e


def contents(file: str) -> Contents:
    """Return the groups and arrays of an HDF5 or NetCDF4 file.

    Arrays with a filter that is not installed are left out.
    """
    found = Contents()
    unlimited: dict[str, None] = {}
    with open_file(file) as opened, reading(file, "the list of datasets"):
        if opened.userblock_size:
            found.skipped["user block"] = f"{opened.userblock_size} bytes before the HDF5 data"
        nodes = [*_walk(opened, found)]
        dimensions = Dimensions.of(opened, (n for _, n in nodes if isinstance(n, h5py.Dataset)))
        for path, node in nodes:
            if isinstance(node, h5py.Group):
                found.groups[path] = _attributes(node, path, dimensions, found)
            elif not _is_bare_dimension(node):
                reason = _missing_filter(node)
                if reason is None:
                    _add(file, path, node, dimensions, found)
                    unlimited |= dict.fromkeys(dimensions.unlimited(node))
                else:
                    found.skipped[path] = found.uninstalled[path] = reason
        if dimensions.netcdf:
            found.notes.append(
                "NetCDF4: dimensions from dimension scales, hidden attributes left out"
            )
        if unlimited:
            found.notes.append(
                f"unlimited dimensions become ordinary ones: {', '.join(unlimited)}; in Zarr,"
                " values can be appended along any"
            )
    return found


def _walk(root: Any, found: Contents) -> Iterator[tuple[str, Any]]:
    """Yield every group once, and every dataset, with the path; report other links."""
    waiting = [("", root)]
    seen = {root.id: "/"}
    while waiting:
        path, group = waiting.pop()
        yield path, group
        inside = []
        for name in group:
            inner = f"{path}/{name}" if path else name
            try:
                inner.encode()
                node = _follow(group, name)
            except UnicodeEncodeError:
                found.skipped[repr(inner)] = "its name is not UTF-8"
            except CannotExpress as e:
                found.skipped[inner] = str(e)
            else:
                if isinstance(node, h5py.Dataset):
                    yield inner, node
                elif not isinstance(node, h5py.Group):
                    found.skipped[inner] = "it is a named data type"
                elif node.id in seen:
                    found.skipped[inner] = f"it is a link to the group {seen[node.id]}"
                else:
                    seen[node.id] = f"/{inner}"
                    inside.append((inner, node))
        waiting.extend(reversed(inside))


def _follow(group: Any, name: str) -> Any:
    link = group.get(name, getlink=True)
    if isinstance(link, h5py.ExternalLink):
        raise CannotExpress(
            f"it is a link to {link.path} in the file {link.filename!r}; import that"
        )
    node = group.get(name)
    if node is None:
        path = getattr(link, "path", "nothing")
        raise CannotExpress(f"it is a link to {path}, which does not exist")
    return node


def _add(file: str, path: str, dataset: Any, dimensions: Dimensions, found: Contents) -> None:
    try:
        entry = _entry(file, dataset, dimensions)
    except CannotExpress as e:
        found.skipped[path] = str(e)
        return
    attributes = _attributes(dataset, path, dimensions, found)
    missing = None
    if np.size(attributes.get("_FillValue", ())):
        text = attributes.pop("_FillValue")
        missing = text if entry.dtype is str else np.ravel(dataset.attrs["_FillValue"])[0]
    for factor in ("scale_factor", "add_offset"):
        kind = dataset.attrs.get_id(factor).dtype if factor in attributes else np.dtype("f8")
        if kind.kind == "f" and kind.itemsize < 8:
            found.notes.append(
                f"{path}: {factor} is {kind} in the file and float64 in Zarr, and so are the values"
                " that readers decode with it"
            )
    _add_flags(dataset.dtype, path, attributes, found)
    name = dimensions.array_path(path)
    if name in found.arrays:
        raise InvalidArgument(f"{file!r} has two arrays with the name {name!r}")
    found.arrays[name] = replace(entry, attributes=attributes, missing=missing)


def _entry(file: str, dataset: Any, dimensions: Dimensions) -> ArrayEntry:
    if dataset.shape is None:
        raise CannotExpress("it is empty: it has a type, but no shape and no values")
    if dataset.external:  # of what is not there, HDF5 would read fill values
        raise CannotExpress(f"its values are in another file, {dataset.external[0][0]!r}")
    if dataset.is_virtual:
        raise CannotExpress(
            "it is virtual, made of other datasets; import those, or make it a plain one with"
            " h5repack"
        )
    dtype, text, extra = stored_type(dataset.dtype)
    shape = dimensions.shape(dataset)
    names, fill = dimensions.dimension_names(dataset), _fill(dataset, dtype, text)
    after = None
    if shape != dataset.shape:
        after = fill.get("fill_value", "" if text else _padding(np.dtype(dtype)))
    return ArrayEntry(
        DatasetValues(file, dataset.name, text, dtype, after),
        (*shape, *extra),
        dtype,
        chunks=None if dataset.chunks is None else (*dataset.chunks, *extra),
        dimension_names=None if names is None else (*names, *(None for _ in extra)),
        **fill,
    )


def stored_type(dtype: np.dtype[Any]) -> tuple[Any, bool, tuple[int, ...]]:
    """Return the type of the Zarr array, True for text, and further axes, for a type of h5py."""
    string = h5py.check_string_dtype(dtype)
    if string is not None:
        if string.length is None or string.encoding == "utf-8":
            return str, True, ()
        return np.dtype(f"S{max(1, string.length)}"), False, ()
    if h5py.check_ref_dtype(dtype) is not None:
        raise CannotExpress("its elements are references to other objects of the file")
    if h5py.check_vlen_dtype(dtype) is not None:
        raise CannotExpress("its elements are arrays of variable length")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        inner, text, more = stored_type(base)
        return inner, text, (*shape, *more)
    if dtype.names is not None:
        return _record(dtype), False, ()
    if dtype.hasobject:
        raise CannotExpress(f"elements of type {dtype} cannot be stored")
    return np.dtype(native(dtype).str) if dtype.kind != "V" else dtype, False, ()


def _record(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a structured type without padding, and without the metadata of h5py."""
    fields: list[Any] = []
    for name in dtype.names or ():
        inner = dtype[name]
        base, shape = inner.subdtype if inner.subdtype is not None else (inner, ())
        if base.hasobject:
            raise CannotExpress(
                f"its field {name!r} has elements of variable length, or references"
            )
        if base.names is not None:
            plain: Any = _record(base)
        else:
            plain = base if base.kind in "VSU" else np.dtype(native(base).str)
        fields.append((name, plain, shape) if shape else (name, plain))
    return recfunctions.repack_fields(np.dtype(fields), recurse=True)


def _fill(dataset: Any, dtype: Any, text: bool) -> dict[str, Any]:
    """Return the option `fill_value` if the file states one."""
    plist = dataset.id.get_create_plist()
    if plist.fill_value_defined() != h5py.h5d.FILL_VALUE_USER_DEFINED:
        return {}
    value = dataset.fillvalue
    if text:
        try:
            return {"fill_value": value.decode() if value else ""}
        except UnicodeDecodeError:
            raise CannotExpress(f"its fill value {value!r} is not UTF-8") from None
    if getattr(dtype, "kind", "") == "b":
        return {"fill_value": bool(value)}
    return {"fill_value": value}


def _missing_filter(dataset: Any) -> str | None:
    """Return why the chunks of a dataset cannot be decoded; None if all their filters are there."""
    plist = dataset.id.get_create_plist()
    for number in (int(plist.get_filter(i)[0]) for i in range(plist.get_nfilters())):
        if not h5py.h5z.filter_avail(number):
            with suppress(ImportError):
                import hdf5plugin  # noqa: PLC0415, F401
        if not h5py.h5z.filter_avail(number):
            name = f"{_FILTERS[number]} (number" if number in _FILTERS else "(number"
            return (
                f"it is compressed with the HDF5 filter {name} {number}), which is not"
                " installed: pip install hdf5plugin"
            )
    return None


def _add_flags(
    dtype: np.dtype[Any], path: str, attributes: dict[str, Any], found: Contents
) -> None:
    """Add the names of an enumerated type as CF attributes; report it if that is impossible."""
    names = h5py.check_enum_dtype(dtype if dtype.subdtype is None else dtype.subdtype[0])
    if not names:
        if _has_names(dtype):
            found.skipped[f"{path}@names of values"] = "fields of records have none in Zarr"
        return
    flags = {"flag_values": [int(v) for v in names.values()], "flag_meanings": " ".join(names)}
    if any(name.split() != [name] for name in names):
        reason = f"flag_meanings of CF cannot have blanks in names: {', '.join(map(repr, names))}"
    elif any(name in attributes and attributes[name] != flags[name] for name in flags):
        reason = "the attributes flag_values and flag_meanings have others"
    else:
        attributes |= flags
        return
    found.skipped[f"{path}@names of values"] = reason


def _has_names(dtype: np.dtype[Any]) -> bool:
    if dtype.subdtype is not None:
        return _has_names(dtype.subdtype[0])
    inner = [dtype[name] for name in dtype.names or ()]
    return bool(h5py.check_enum_dtype(dtype)) or any(map(_has_names, inner))


def _attributes(node: Any, path: str, dimensions: Dimensions, found: Contents) -> dict[str, Any]:
    """Return the attributes as JSON; report any that cannot be converted."""
    out: dict[str, Any] = {}
    for name in node.attrs:
        if dimensions.is_hidden(name, node):
            continue
        where = f"{path or '/'}@{name}"

        def note(text: str, where: str = where) -> None:
            found.notes.append(f"the attribute {where} {text}")

        try:
            name.encode()
            out[name] = _attribute(node.attrs[name], dimensions.netcdf, note)
            if _has_names(node.attrs.get_id(name).dtype):
                note("has numbers, without their names")
        except CannotExpress as e:
            found.skipped[where] = str(e)
        except (UnicodeError, OSError, TypeError, ValueError, RuntimeError, KeyError) as e:
            found.skipped[where] = f"the attribute cannot be read: {e}"
    return out


def _attribute(value: Any, single: bool, note: Note) -> Any:
    """Return an attribute of h5py as JSON; with `single`, an array of one element as that."""
    if isinstance(value, h5py.Empty):
        if value.dtype.kind in "SO":
            return ""
        note(f"has no value, only the type {value.dtype}: an empty list")
        return []
    if isinstance(value, (h5py.Reference, h5py.RegionReference)):
        raise CannotExpress("the attribute is a reference to another object of the file")
    if isinstance(value, (str, bytes)):
        return _json_value(value, note)
    array = np.asarray(value)
    if h5py.check_ref_dtype(array.dtype) is not None:
        raise CannotExpress("the attribute is a list of references")
    if array.dtype.kind in "Mm":
        return array.astype(str).tolist()
    names = array.dtype.names
    if array.dtype.kind == "V" and names is None:
        raise CannotExpress("the attribute is opaque bytes")
    found = _json_value(array.tolist(), note, names)
    return found[0] if single and names is None and array.shape == (1,) else found


def _json_value(value: Any, note: Note, names: tuple[str, ...] | None = None) -> Any:
    """Return a value, or lists of values, as JSON; records with `names` become objects."""
    if names is not None and isinstance(value, tuple):
        return {n: _json_value(v, note) for n, v in zip(names, value, strict=True)}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_json_value(v, note, names) for v in value]
    if isinstance(value, (np.longdouble, np.clongdouble)):
        raise CannotExpress("JSON has no numbers of more than 64 bits")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, complex):
        raise CannotExpress("JSON has no complex numbers")
    if isinstance(value, (str, bytes)):
        return _decoded(value, note)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise CannotExpress(f"{type(value).__name__} cannot be stored as JSON")


def _decoded(value: str | bytes, note: Note) -> str:
    """Return text of UTF-8, or else of Latin-1."""
    if isinstance(value, str):
        value = value.encode(errors="surrogateescape")  # as h5py marks bytes that are not UTF-8
    try:
        return value.decode()
    except UnicodeDecodeError:
        found = value.decode("latin-1")
    if not "".join(found.split()).isprintable():
        raise CannotExpress("the attribute has bytes that are no text")
    note("is not UTF-8 and was read as Latin-1")
    return found


@dataclass
class Dimensions:
    """The dimensions of a file, by the conventions of NetCDF4 if it is one."""

    netcdf: bool
    _names: dict[int, str | None] = field(default_factory=dict)  # of dimensions by their number
    _scales: dict[int, Any] = field(default_factory=dict)  # their identifiers in the file
    _lengths: dict[Any, int] = field(default_factory=dict)  # of unlimited dimensions

    @classmethod
    def of(cls, root: Any, datasets: Iterable[Any]) -> Dimensions:
        """Return the dimensions of a file from all its datasets."""
        found = cls("_NCProperties" in root.attrs or "_nc3_strict" in root.attrs)
        variables = list(datasets)
        for scale in filter(_is_scale, variables):  # h5netcdf numbers other variables, too
            found.netcdf = True
            number = scale.attrs.get("_Netcdf4Dimid")
            if number is not None:
                found._names.setdefault(int(number), _last(scale))
                found._scales.setdefault(int(number), scale.id)
            if scale.maxshape and scale.maxshape[0] is None:
                found._lengths[scale.id] = 0
        for variable in variables:
            sides = zip(found._axes(variable), variable.shape or (), strict=False)
            for scale, length in () if _is_bare_dimension(variable) else sides:
                if scale in found._lengths:
                    found._lengths[scale] = max(found._lengths[scale], length)
        return found

    def _axes(self, dataset: Any) -> list[Any]:
        """Return the identifiers of the scales of a dataset's axes; None where there is none."""
        found = [dim[0].id if len(dim) else None for dim in dataset.dims] if dataset.shape else []
        if found and _is_scale(dataset) and not any(found):
            listed = _listed(dataset)
            found[0] = dataset.id
            return found if listed is None else [self._scales.get(n) for n in listed]
        return found

    def shape(self, dataset: Any) -> tuple[int, ...]:
        """Return the shape of a variable, with the lengths of unlimited dimensions."""
        sides = zip(self._axes(dataset), dataset.shape, strict=True)
        return tuple(self._lengths.get(scale, length) for scale, length in sides)

    def is_hidden(self, name: str, node: Any) -> bool:
        """Return True if an attribute belongs to the file format, not to the user."""
        if name in ("CLASS", "NAME"):
            return _is_scale(node)
        return name in _SCALE or (self.netcdf and name in _NETCDF)

    def array_path(self, path: str) -> str:
        """Return the path of an array without the prefix that NetCDF puts before some names."""
        above, slash, name = path.rpartition("/")
        return above + slash + (name.removeprefix(_RENAMED) if self.netcdf else name)

    def dimension_names(self, dataset: Any) -> tuple[str | None, ...] | None:
        """Return the names of a dataset's axes; None if none has a name."""
        if not dataset.ndim:
            return () if self.netcdf else None
        # An axis is named after its first scale, or else its label.
        names = [_last(dim[0]) if len(dim) else dim.label or None for dim in dataset.dims]
        if _is_scale(dataset) and not any(names):  # a coordinate: its own name, or what it lists
            listed = _listed(dataset)
            names[0] = _last(dataset)
            names = names if listed is None else [self._names.get(n) for n in listed]
        return tuple(names) if any(names) else None

    def unlimited(self, dataset: Any) -> list[str]:
        """Return the names of a NetCDF dataset's axes that have no largest length."""
        largest = (dataset.maxshape or ()) if self.netcdf else ()
        names = self.dimension_names(dataset) or ()
        return [n for n, length in zip(names, largest, strict=False) if n and length is None]


def _last(dataset: Any) -> str | None:
    """Return the last part of a dataset's name; None if it is anonymous."""
    return dataset.name.rpartition("/")[2] if dataset.name else None


def _listed(dataset: Any) -> list[int] | None:
    """Return the numbers of the dimensions that a coordinate of several axes lists."""
    listed = dataset.attrs.get("_Netcdf4Coordinates")
    return None if listed is None or len(listed) != dataset.ndim else [int(n) for n in listed]


def _is_scale(dataset: Any) -> bool:
    kind = dataset.attrs.get("CLASS") if isinstance(dataset, h5py.Dataset) else None
    return kind in ("DIMENSION_SCALE", b"DIMENSION_SCALE")


def _is_bare_dimension(dataset: Any) -> bool:
    """Return True if a dataset is only a dimension: it has a length, but no values."""
    name = dataset.attrs.get("NAME", b"") if _is_scale(dataset) else b""
    return bytes(name if isinstance(name, bytes) else str(name).encode()).startswith(_BARE)


def _padding(dtype: np.dtype[Any]) -> Any:
    """Return the value after the end of a variable that has no fill value."""
    known = _FILLS.get(dtype.str[1:])
    return np.zeros((), dtype)[()] if known is None else dtype.type(known)
