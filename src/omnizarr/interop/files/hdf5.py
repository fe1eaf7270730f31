"""HDF5 files, and NetCDF4 files, which are HDF5: their groups, arrays and attributes.

Specification: https://support.hdfgroup.org/documentation/hdf5/latest/_s_p_e_c.html

Chunks are those of the file. Enumerated types become integers, with the CF attributes `flag_values`
and `flag_meanings`; strings of variable length, and those of UTF-8, become text. What Zarr cannot
hold is listed with the reason: references, arrays of variable length, links to other files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import recfunctions

from omnizarr.errors import InvalidArgument, MissingModule, OmnizarrError, StoreError
from omnizarr.interop.files.contents import ArrayEntry, Box, Contents, native
from omnizarr.interop.files.netcdf import Conventions, padding

try:
    import h5py
except ImportError as e:
    raise MissingModule(f"HDF5 files need h5py: pip install 'omnizarr[hdf5]' ({e})") from e

_NAMES = {4: "szip", 5: "nbit", 6: "scaleoffset", 307: "bzip2", 32000: "lzf", 32001: "blosc",
          32004: "lz4", 32008: "bitshuffle", 32013: "zfp", 32015: "zstd", 32017: "sz",
          32023: "jpegxl", 32024: "sz3", 32026: "blosc2"}  # fmt: skip


class Unsupported(Exception):
    """Something in a file that Zarr cannot hold; it is left out and reported."""


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
                values = _padded(values, box[:rank], self.after)
            inner: Any = (..., *box[rank:])
            values = values[inner] if len(box) > rank else values
            if self.text:
                return values.astype(np.dtypes.StringDType())
            return values.astype(self.dtype, copy=False)


def _padded(values: npt.NDArray[Any], box: Box, after: Any) -> npt.NDArray[Any]:
    """Return values with the shape of a box, which may end after the last of them."""
    lengths = (side.stop - side.start for side in box)
    out: npt.NDArray[Any] = np.full((*lengths, *values.shape[len(box) :]), after, values.dtype)
    out[tuple(slice(0, n) for n in values.shape)] = values
    return out


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
        conventions = Conventions.of(opened)
        for path, node in _walk(opened, found):
            if isinstance(node, h5py.Group):
                found.groups[path] = _attributes(node, path, conventions, found)
            elif not conventions.is_bare_dimension(node):
                reason = _missing_filter(node)
                if reason is None:
                    _add(file, path, node, conventions, found)
                    unlimited |= dict.fromkeys(conventions.unlimited(node))
                else:
                    found.skipped[path] = found.uninstalled[path] = reason
        if conventions.netcdf:
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
    seen = {_identity(root): "/"}
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
            except Unsupported as e:
                found.skipped[inner] = str(e)
            else:
                if isinstance(node, h5py.Dataset):
                    yield inner, node
                elif isinstance(node, h5py.Group):
                    other = seen.setdefault(_identity(node), f"/{inner}")
                    if other == f"/{inner}":
                        inside.append((inner, node))
                    else:
                        found.skipped[inner] = f"it is a link to the group {other}"
                else:
                    found.skipped[inner] = "it is a named data type"
        waiting.extend(reversed(inside))


def _identity(node: Any) -> Any:
    info = h5py.h5o.get_info(node.id)
    return info.fileno, info.addr


def _follow(group: Any, name: str) -> Any:
    link = group.get(name, getlink=True)
    if isinstance(link, h5py.ExternalLink):
        raise Unsupported(f"it is a link to {link.path} in the file {link.filename!r}; import that")
    node = group.get(name)
    if node is None:
        path = getattr(link, "path", "nothing")
        raise Unsupported(f"it is a link to {path}, which does not exist")
    return node


def _add(file: str, path: str, dataset: Any, conventions: Conventions, found: Contents) -> None:
    try:
        entry = _entry(file, dataset, conventions)
    except Unsupported as e:
        found.skipped[path] = str(e)
        return
    attributes = _attributes(dataset, path, conventions, found)
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
    name = conventions.array_path(path)
    if name in found.arrays:
        raise InvalidArgument(f"{file!r} has two arrays with the name {name!r}")
    found.arrays[name] = replace(entry, attributes=attributes, missing=missing)


def _entry(file: str, dataset: Any, conventions: Conventions) -> ArrayEntry:
    if dataset.shape is None:
        raise Unsupported("it is empty: it has a type, but no shape and no values")
    _check_storage(dataset)
    dtype, text, extra = stored_type(dataset.dtype)
    shape = conventions.shape(dataset)
    names, fill = conventions.dimension_names(dataset), _fill(dataset, dtype, text)
    after = None
    if shape != dataset.shape:
        after = fill.get("fill_value", "" if text else padding(np.dtype(dtype)))
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
        raise Unsupported("its elements are references to other objects of the file")
    if h5py.check_vlen_dtype(dtype) is not None:
        raise Unsupported("its elements are arrays of variable length")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        inner, text, more = stored_type(base)
        return inner, text, (*shape, *more)
    if dtype.names is not None:
        return _record(dtype), False, ()
    if dtype.hasobject:
        raise Unsupported(f"elements of type {dtype} cannot be stored")
    return np.dtype(native(dtype).str) if dtype.kind != "V" else dtype, False, ()


def _record(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a structured type without padding, and without the metadata of h5py."""
    fields: list[Any] = []
    for name in dtype.names or ():
        inner = dtype[name]
        base, shape = inner.subdtype if inner.subdtype is not None else (inner, ())
        if base.hasobject:
            raise Unsupported(f"its field {name!r} has elements of variable length, or references")
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
            raise Unsupported(f"its fill value {value!r} is not UTF-8") from None
    if getattr(dtype, "kind", "") == "b":
        return {"fill_value": bool(value)}
    return {"fill_value": value}


def _check_storage(dataset: Any) -> None:
    """Raise if values are in other files that are not there; HDF5 would read fill values."""
    if dataset.external:
        raise Unsupported(f"its values are in another file, {dataset.external[0][0]!r}")
    if not dataset.is_virtual:
        return
    folder = os.path.dirname(os.path.abspath(dataset.file.filename))
    for source in dataset.virtual_sources():
        if source.file_name == ".":
            _check_virtual_source(dataset.file, source)
            continue
        place = os.path.join(folder, source.file_name)
        if not os.path.exists(place):
            raise Unsupported(f"it is made of other files, and {source.file_name!r} is missing")
        try:
            with open_file(place) as opened:
                _check_virtual_source(opened, source)
        except (InvalidArgument, StoreError) as e:
            raise Unsupported(f"it is made of other files, of which one cannot be read: {e}") from e


def _check_virtual_source(opened: Any, source: Any) -> None:
    """Raise if a file does not have all values that a virtual dataset takes from it."""
    inside = "" if source.file_name == "." else f" of {source.file_name!r}"
    where = f"{source.dset_name}{inside}"
    found = opened.get(source.dset_name)
    if not isinstance(found, h5py.Dataset):
        raise Unsupported(f"it is made of other datasets, and {where} is missing")
    if found.shape is None or not _reaches(found, source):
        raise Unsupported(f"it is made of other datasets, and {where} is too small")
    _check_storage(found)


def _reaches(dataset: Any, source: Any) -> bool:
    """Return True if a dataset has all elements that a virtual dataset takes from it."""
    if source.src_space.get_select_type() == h5py.h5s.SEL_ALL:
        return bool(dataset.size >= source.vspace.get_select_npoints())
    try:
        _, last = source.src_space.get_select_bounds()
    except (ValueError, RuntimeError):  # it takes as many as there are
        return True
    return len(last) == dataset.ndim and all(
        i < n for i, n in zip(last, dataset.shape, strict=True)
    )


def _missing_filter(dataset: Any) -> str | None:
    """Return why the chunks of a dataset cannot be decoded; None if all their filters are there."""
    for number in _filters(dataset):
        if not h5py.h5z.filter_avail(number):
            _load_plugins()
        if not h5py.h5z.filter_avail(number):
            return (
                f"it is compressed with the HDF5 filter {_filter_name(number)}, which is not"
                " installed: pip install hdf5plugin"
            )
    return None


def _filter_name(number: int) -> str:
    """Return the registered name of a filter, and its number."""
    name = _NAMES.get(number)
    return f"number {number}" if name is None else f"{name} (number {number})"


def _load_plugins() -> None:
    try:
        import hdf5plugin  # noqa: PLC0415, F401
    except ImportError:
        return


def _filters(dataset: Any) -> list[int]:
    plist = dataset.id.get_create_plist()
    return [int(plist.get_filter(i)[0]) for i in range(plist.get_nfilters())]


def _add_flags(
    dtype: np.dtype[Any], path: str, attributes: dict[str, Any], found: Contents
) -> None:
    """Add the names of an enumerated type as CF attributes; report those that cannot be."""
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
    """Return True if a type, or a part of it, is enumerated."""
    if dtype.subdtype is not None:
        return _has_names(dtype.subdtype[0])
    inner = [dtype[name] for name in dtype.names or ()]
    return bool(h5py.check_enum_dtype(dtype)) or any(map(_has_names, inner))


def _attributes(node: Any, path: str, conventions: Conventions, found: Contents) -> dict[str, Any]:
    """Return the attributes as JSON; report those that cannot be."""
    out: dict[str, Any] = {}
    for name in node.attrs:
        if conventions.is_hidden(name, node):
            continue
        where = f"{path or '/'}@{name}"
        try:
            name.encode()
            out[name] = attribute(node.attrs[name], conventions.netcdf, found.notes.append, where)
            if _has_names(node.attrs.get_id(name).dtype):
                found.notes.append(f"the attribute {where} has numbers, without their names")
        except Unsupported as e:
            found.skipped[where] = str(e)
        except (UnicodeError, OSError, TypeError, ValueError, RuntimeError, KeyError) as e:
            found.skipped[where] = f"the attribute cannot be read: {e}"
    return out


def attribute(
    value: Any, single: bool, note: Callable[[str], None] = lambda text: None, where: str = ""
) -> Any:
    """Return an attribute of h5py as JSON; with `single`, an array of one element as that."""
    if isinstance(value, h5py.Empty):
        if value.dtype.kind in "SO":
            return ""
        note(f"the attribute {where} has no value, only the type {value.dtype}: an empty list")
        return []
    if isinstance(value, (str, bytes)):
        return _text(value, note, where)
    array = np.asarray(value)
    if isinstance(value, (h5py.Reference, h5py.RegionReference)):
        raise Unsupported("the attribute is a reference to another object of the file")
    if h5py.check_ref_dtype(array.dtype) is not None:
        raise Unsupported("the attribute is a list of references")
    if array.dtype.names is not None:
        return _plain(array.tolist(), array.dtype, note, where)
    if array.dtype.kind == "c":
        raise Unsupported("JSON has no complex numbers")
    if array.dtype.kind == "V":
        raise Unsupported("the attribute is opaque bytes")
    if array.dtype.kind in "Mm":
        return array.astype(str).tolist()
    found = _items(array.tolist(), note, where)
    while single and isinstance(found, list) and len(found) == 1 and array.ndim == 1:
        return found[0]
    return found


def _plain(value: Any, dtype: np.dtype[Any], note: Callable[[str], None], where: str) -> Any:
    """Return records as objects by field name."""
    if isinstance(value, list):
        return [_plain(v, dtype, note, where) for v in value]
    names = dtype.names or ()
    return {n: _items(v, note, where) for n, v in zip(names, value, strict=True)}


def _items(value: Any, note: Callable[[str], None], where: str) -> Any:
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_items(v, note, where) for v in value]
    if isinstance(value, (str, bytes)):
        return _text(value, note, where)
    if isinstance(value, (np.longdouble, np.clongdouble)):
        raise Unsupported("JSON has no numbers of more than 64 bits")
    if isinstance(value, np.generic):
        return _items(value.item(), note, where)
    if isinstance(value, complex):
        raise Unsupported("JSON has no complex numbers")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise Unsupported(f"{type(value).__name__} cannot be stored as JSON")


def _text(value: str | bytes, note: Callable[[str], None], where: str) -> str:
    if isinstance(value, str):
        value = value.encode(errors="surrogateescape")  # as h5py marks bytes that are not UTF-8
    try:
        return value.decode()
    except UnicodeDecodeError:
        found = value.decode("latin-1")
    if not "".join(found.split()).isprintable():
        raise Unsupported("the attribute has bytes that are no text")
    note(f"the attribute {where} is not UTF-8 and was read as Latin-1")
    return found
