"""Write datasets of xarray to groups: new datasets, appended data, and regions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import xarray as xr
from xarray import conventions

from omnizarr import Array, Group, consolidate_metadata, errors, extension
from omnizarr import open as open_zarr
from omnizarr.bulk.tiles import Box, stored_axes
from omnizarr.conventions.cf.variable import fill_is_missing, is_scalar
from omnizarr.errors import InvalidArgument
from omnizarr.extension import Location, location_of, paths
from omnizarr.interop.xarray.encode import (
    Coded,
    dataset_of,
    encoded_all,
    encoded_dataset,
    encoded_new,
    new_array,
)
from omnizarr.interop.xarray.engine import variable

if find_spec("dask"):
    from omnizarr.interop.dask import Writes, check_apart_from, run, writes

PART = 2**19  # elements that are encoded at a time
REMOTE_PART = 2**22  # the same for stores where one call writes many chunks concurrently
WriteMode: TypeAlias = Literal["w", "w-", "a", "a-", "r+"]
Encoded: TypeAlias = tuple[dict[str, Coded], dict[str, Any]]


def resolve_region(dataset: xr.Dataset, region: Any, group: Group) -> dict[str, slice]:
    """Return a slice for every dimension of a region; ``"auto"`` is found by coordinates."""
    if region == "auto":
        region = dict.fromkeys(dataset.dims, "auto")
    if not isinstance(region, Mapping):
        raise errors.WrongType(f"region must be 'auto' or a dict of slices, got {region!r}")
    found: dict[str, slice] = {}
    for name, part in region.items():
        if name not in dataset.dims:
            known = ", ".join(map(str, dataset.dims))
            raise errors.NoSuchLabel(
                f"region has {name!r}, which is not a dimension; known: {known}"
            )
        found[name] = _find(dataset, name, group) if part == "auto" else part
        if not isinstance(found[name], slice):
            raise errors.WrongType(f"region of {name!r} must be a slice or 'auto', got {part!r}")
        if found[name].step not in (None, 1):
            raise InvalidArgument(f"region of {name!r} must not have a step, got {part!r}")
    unrelated = [n for n, v in dataset.variables.items() if not set(found) & set(v.dims)]
    if found and unrelated:
        raise InvalidArgument(
            f"variables {unrelated} have no dimension of the region {sorted(found)};"
            f" drop them with .drop_vars({unrelated!r})"
        )
    return found


def _find(dataset: xr.Dataset, dim: str, group: Group) -> slice:
    """Find the slice where a dimension's coordinates are stored; without any, from 0."""
    if dim not in dataset.variables:
        return slice(0, dataset.sizes[dim])
    array = group.get(dim)
    if array is None:
        raise errors.NodeNotFound(
            f"region 'auto' needs the coordinate {dim!r}, which is not stored"
        )
    stored = conventions.decode_cf_variable(dim, variable(dim, array).load())
    indices = pd.Index(stored.values).get_indexer(pd.Index(dataset[dim].values))
    if (indices < 0).any():
        missing = dataset[dim].values[indices < 0][0]
        raise errors.NoSuchLabel(
            f"coordinate {dim!r} has {missing!r}, which is not stored; a region must consist of"
            " stored coordinates, append_dim adds new ones"
        )
    if (np.diff(indices) != 1).any():
        raise InvalidArgument(
            f"the values of coordinate {dim!r} are not contiguous where they are stored;"
            " write one contiguous range at a time"
        )
    return slice(int(indices[0]), int(indices[-1]) + 1) if len(indices) else slice(0, 0)


@contextmanager
def growing(larger: Sequence[tuple[Array, tuple[int, ...]]]) -> Iterator[None]:
    """Lock arrays while values are appended, then store their new shapes.

    Raises before anything is written if the shape of an array has changed since it was opened.
    """
    own = [location_of(array) for array, _ in larger]
    with extension.lock_shape(*own) as held:
        try:
            for (array, shape), location in zip(larger, held, strict=True):
                known = array.shape
                extension.use_location(array, location)
                array.refresh()  # what is written is checked with it
                if array.shape != known:
                    raise _changed(array, known, shape)
            rest = store_first(larger)
            yield
            for array, shape in rest:
                store_shape(array, shape)
        finally:
            for (array, _), location in zip(larger, own, strict=True):
                extension.use_location(array, location)


def store_first(
    larger: Sequence[tuple[Array, tuple[int, ...]]],
) -> list[tuple[Array, tuple[int, ...]]]:
    """Store the shapes of arrays in stores that need them before the values; return the others."""
    for array, shape in larger:
        if extension.traits(array.store).commits_changes:
            store_shape(array, shape)
    return [(array, shape) for array, shape in larger if array.shape != shape]


def store_shape(array: Array, shape: tuple[int, ...]) -> None:
    """Store a larger shape after values were appended; raise if the shape changed meanwhile.

    This is a compare-and-set of the shape. Without the lock of `growing`, another writer may have
    written to the same elements.
    """
    old = array.shape
    if not extension.change_shape(array, shape):
        raise _changed(array, old, shape)


def _changed(array: Array, known: tuple[int, ...], shape: tuple[int, ...]) -> errors.Conflict:
    return errors.Conflict(
        f"{location_of(array)} has shape {array.shape} now, it had {known} when {shape} was begun;"
        " another writer changed it, append again"
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """Values for one box of an array, and the shape of the array afterwards."""

    array: Array
    values: Coded
    start: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def target(self) -> Array:
        """The array with its shape afterwards, which may not be stored yet."""
        if self.shape == self.array.shape:
            return self.array
        model = extension.with_shape(extension.model_of(self.array), self.shape)
        return extension.unpublished(location_of(self.array), model).with_config(self.array.config)

    @property
    def is_appended(self) -> bool:
        """True if no existing element is overwritten."""
        return any(a >= n for a, n in zip(self.start, self.array.shape, strict=True))

    def store(self) -> None:
        """Store values that are in memory; encode them part by part, if they are not yet."""
        box = tuple(slice(a, a + n) for a, n in zip(self.start, self.values.shape, strict=True))
        target, values, encode = self.target, np.asarray(self.values.data), self.values.encode
        if encode is None:
            target[box] = values
            return
        errors = np.geterr()

        def one(part: Box) -> None:
            pairs = zip(part, self.start, strict=True)
            inside = tuple(slice(p.start - start, p.stop - start) for p, start in pairs)
            with np.errstate(**errors):  # NumPy keeps it per thread: use the caller's
                target[part] = encode(values[inside])

        size = PART if extension.traits(target.store).cheap_requests else REMOTE_PART
        parts = extension.boxes.cut(stored_axes(target), size, box)
        extension.for_each(iter(parts), parts.count, one, values.nbytes)

    def tasks(self) -> Writes:
        """Return the tasks that store a Dask array."""
        return writes(self.values.data, self.target, self.start)


@dataclass(frozen=True, slots=True)
class DatasetOptions:
    """Options for writing a dataset."""

    mode: WriteMode
    append_dim: str | None
    region: Any
    write_empty_chunks: bool | None


def write(
    data: xr.Dataset | xr.DataArray | xr.DataTree,
    store: Any,
    *,
    mode: WriteMode | None = None,
    group: str | None = None,
    encoding: Mapping[str, Any] | None = None,
    append_dim: str | None = None,
    region: Mapping[str, slice | Literal["auto"]] | Literal["auto"] | None = None,
    compute: bool = True,
    consolidated: bool | None = None,
    zarr_format: int | str | None = None,
    write_empty_chunks: bool | None = None,
    write_inherited_coords: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Store a dataset, an array or a tree.

    Dask arrays may have any blocks: every task stores whole chunks or shards.

    Args:
        data: An xarray `Dataset`, `DataArray` or `DataTree`.
        store: A path, URL, dict, store or `StorePath`.
        mode: ``"w-"``, the default, creates; ``"w"`` replaces; ``"a"`` overwrites or adds
            variables; ``"a-"``, with `append_dim`, does not change variables without that
            dimension; ``"r+"`` changes only values.
        group: The path of the group in the store.
        encoding: Options of `create_array` and of CF by variable (for a tree by path, then
            variable).
        append_dim: The dimension along which to append: the new length is stored after all values.
        region: The part to write to: slices by dimension, or ``"auto"`` to find them by
            coordinates.
        compute: False to store everything but the values of Dask arrays, and return a
            `dask.delayed.Delayed`; while it appends, there must be no other writer.
        consolidated: None to write consolidated metadata if the format has it.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default as in the hierarchy, or 3.
        write_empty_chunks: True to store chunks that hold nothing but the fill value.
        write_inherited_coords: True to store the coordinates that groups of a tree inherit, too.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        The group, or with ``compute=False`` the tasks that store the values.

    Raises:
        NodeExists: If there is something, and the mode is ``"w-"``.
        InvalidArgument: If the data do not fit the stored data, or an option is not valid.

    Examples:
        >>> import xarray
        >>> dataset = xarray.Dataset({"salt": ("time", [34.5, 35.0])})
        >>> list(oz.xarray.write(dataset, "ocean.zarr"))
        ['salt']
    """
    options = DatasetOptions(
        _mode(mode, append_dim, region), append_dim, region, write_empty_chunks
    )
    if isinstance(data, xr.DataArray):
        data = dataset_of(data)
    if isinstance(data, xr.DataTree):
        datasets = _nodes(data, encoding, write_inherited_coords)
    else:
        datasets = {"": (data, encoding)}
    new: dict[str, Encoded] = {}
    if options.mode in ("w", "w-"):
        # Load everything first: the data may be what is about to be replaced.
        for path, (dataset, given) in datasets.items():
            for var in dataset.variables.values():
                if var.chunks is None:
                    var.load()
            new[path] = encoded_new(dataset, given)
        location = extension.new_location(store, group, zarr_format, storage_options)
        return _write_new(new, location, options, compute, consolidated)
    place: dict[str, Any] = {"path": group, "storage_options": storage_options}
    if append_dim is not None:
        known = {str(dim) for dataset, _ in datasets.values() for dim in dataset.dims}
        if append_dim not in known and not _has_members(store, place):
            raise InvalidArgument(
                f"append_dim {append_dim!r} is not a dimension of the data, and nothing is stored"
                f" yet; known: {', '.join(sorted(known)) or 'none'}"
            )
    opened = "a" if options.mode == "a-" else options.mode
    top = open_zarr(store, opened, kind="group", zarr_format=zarr_format, **place)
    pieces: list[Piece] = []
    for path, (dataset, given) in datasets.items():
        pieces += _change(dataset, given, _below(top, path, options), options)
    for piece in pieces:
        if piece.values.chunks is not None and not piece.is_appended:
            check_apart_from(piece.values.data, piece.array)
    if options.mode != "r+" and consolidated is not False:
        _consolidate(location_of(top).at(""), bool(consolidated))
    return _store(pieces, top, compute)


def _write_new(
    new: Mapping[str, Encoded],
    location: Location,
    options: DatasetOptions,
    compute: bool,
    consolidated: bool | None,
) -> Any:
    """Store datasets in a new group, which becomes visible and replaces another when complete.

    If values are computed later, the group becomes visible before they are stored.
    """
    try:
        made = extension.build(
            location, overwrite=options.mode == "w", operation="writing a dataset"
        )
    except errors.NodeExists as e:
        raise errors.NodeExists(
            f"{e}; mode='w' replaces it, mode='a' overwrites or adds variables, append_dim appends"
            " along a dimension"
        ) from e
    with made as staged:
        top = extension.make_group(staged, None, overwrite=False)
        below = {path: _below(top, path, options) for path in new}
        pieces = [p for path, group in below.items() for p in _create(*new[path], group, options)]
        if compute:
            _store(pieces, top, compute)
        else:
            for piece in pieces:
                if piece.values.chunks is not None and made.old is not None:
                    check_apart_from(piece.values.data, location)
            later = _store_now(pieces)
        if consolidated is not False and not location.path:
            _consolidate(staged, bool(consolidated))  # so that one step makes both visible
    group = Group.at(location, location.load())
    if consolidated is not False and location.path:
        _consolidate(location.at(""), bool(consolidated))
    if compute:
        return group
    _check_dask()
    start = len(paths.prefix(staged.path))
    final = (group[piece.array.path[start:]].with_config(piece.array.config) for piece in later)
    moved = [replace(piece, array=array) for piece, array in zip(later, final, strict=True)]
    return run([p.tasks() for p in moved], lambda: group, compute)


def _mode(mode: WriteMode | None, append_dim: str | None, region: Any) -> WriteMode:
    chosen: WriteMode = mode or ("a" if append_dim else "w-" if region is None else "r+")
    if chosen not in ("w", "w-", "a", "a-", "r+"):
        raise InvalidArgument(f"mode must be one of w, w-, a, a-, r+, got {chosen!r}")
    if append_dim is not None and chosen not in ("a", "a-"):
        raise InvalidArgument(f"append_dim needs mode 'a' or 'a-', got {chosen!r}")
    if region is not None and chosen not in ("a", "a-", "r+"):
        raise InvalidArgument(f"region needs mode 'r+', 'a' or 'a-', got {chosen!r}")
    if isinstance(region, Mapping) and append_dim in region:
        raise InvalidArgument(f"append_dim {append_dim!r} cannot be in the region {region!r} too")
    return chosen


def _nodes(
    tree: xr.DataTree, encoding: Mapping[str, Any] | None, inherit: bool
) -> dict[str, tuple[xr.Dataset, Mapping[str, Any] | None]]:
    """Return the datasets of a tree by relative path, each with its encodings."""
    given = {k.strip("/"): v for k, v in (encoding or {}).items()}
    found: dict[str, tuple[xr.Dataset, Mapping[str, Any] | None]] = {}
    for path, node in tree.subtree_with_keys:
        name = "" if path == "." else path
        found[name] = node.to_dataset(inherit=inherit or node is tree), given.pop(name, None)
    if given:
        raise InvalidArgument(f"encoding for {sorted(given)}, which are not groups of the tree")
    return found


def _has_members(store: Any, options: dict[str, Any]) -> bool:
    """Return True if there is a group, and it is not empty."""
    try:
        return len(open_zarr(store, "r", kind="group", **options)) > 0
    except errors.NodeNotFound:
        return False


def _below(top: Group, path: str, options: DatasetOptions) -> Group:
    if not path:
        return top
    if options.mode != "r+":
        return top.require_group(path)
    found = top[path]
    if not isinstance(found, Group):
        raise errors.WrongNode(f"{found.name} is an array, not a group")
    return found


def _create(
    stored: Mapping[str, Coded],
    attributes: Mapping[str, Any],
    group: Group,
    options: DatasetOptions,
) -> list[Piece]:
    """Create arrays for encoded variables; their values are not stored yet."""
    for name in stored:
        location_of(group).format.check_name(name)
    group.attrs.put(attributes)
    pieces = []
    for name, var in stored.items():
        checksums = location_of(group).format.checksums_are_read
        created = new_array(var, fill_is_missing(group), checksums)
        if options.write_empty_chunks is not None:
            created["config"] = {"write_empty_chunks": options.write_empty_chunks}
        try:
            array = group.create_array(name, **created)
        except errors.OmnizarrError as e:
            e.add_note(
                f"while creating the variable {name!r}; .drop_encoding() removes the encoding of"
                " the file that it was read from"
            )
            raise
        pieces.append(Piece(array, var, (0,) * array.ndim, array.shape))
    return pieces


def _change(
    dataset: xr.Dataset,
    encoding: Mapping[str, Any] | None,
    group: Group,
    options: DatasetOptions,
) -> list[Piece]:
    """Return the pieces to write to existing arrays, and create new arrays; store no values."""
    region: dict[str, slice] = {}
    if options.region is not None:
        region = resolve_region(dataset, options.region, group)
        dataset = dataset.drop_vars(list(dataset.indexes))  # they are stored already
    existing = dict(group.arrays())
    variables, attributes = encoded_dataset(dataset, encoding)
    old = {name: existing[name] for name in variables if name in existing}
    _check_names(variables, old, existing, options, set(encoding or ()))
    _check_lengths(old, options.append_dim)
    stored = encoded_all(variables, existing, encoding or ())
    pieces = [
        piece
        for name, array in old.items()
        if (piece := _piece(name, stored[name], array, region, options)) is not None
    ]
    if options.mode == "r+":
        return pieces
    new = {name: var for name, var in stored.items() if name not in old}
    return pieces + _create(new, attributes, group, options)


def _check_names(
    variables: Mapping[str, Any],
    old: Mapping[str, Array],
    existing: Mapping[str, Array],
    options: DatasetOptions,
    given: set[str],
) -> None:
    new = [name for name in variables if name not in old]
    if new and (options.mode == "r+" or options.region is not None):
        raise errors.NodeNotFound(
            f"variables {new} are not stored; a region or mode 'r+' changes only stored variables"
        )
    both = sorted(given & old.keys())
    if both:
        raise InvalidArgument(
            f"encoding for {both}, which are stored already; omit it, it cannot be changed"
        )
    known = {d for array in existing.values() for d in array.dimension_names or ()}
    if options.append_dim is not None and existing and options.append_dim not in known:
        raise InvalidArgument(
            f"append_dim {options.append_dim!r} is not a stored dimension;"
            f" known: {', '.join(sorted(d for d in known if d))}"
        )


def _check_lengths(arrays: Mapping[str, Array], dim: str | None) -> None:
    """Raise if arrays that are appended to do not have the same length."""
    lengths = {
        name: array.shape[array.dimension_names.index(dim)]
        for name, array in arrays.items()
        if array.dimension_names is not None and dim is not None and dim in array.dimension_names
    }
    if len({*lengths.values()}) > 1:
        told = ", ".join(f"{name} {length}" for name, length in sorted(lengths.items()))
        raise errors.Conflict(
            f"variables have different lengths along {dim!r} ({told}), since another writer appends"
            f" just now, or was killed: nothing was stored. Resize the longer ones to"
            f" {min(lengths.values())} along {dim!r}, unless they are still written, and append"
            " again"
        )


def _piece(
    name: str, var: Coded, array: Array, region: Mapping[str, slice], options: DatasetOptions
) -> Piece | None:
    """Return the values and box to write to an existing array; None if it is not changed."""
    grows = options.append_dim in var.dims
    if options.mode == "a-" and options.append_dim is not None and not grows:
        return None
    if is_scalar(array):
        return Piece(array, replace(var, data=var.data.reshape(1)), (0,), array.shape)
    start, shape = [], []
    for dim, length, given in zip(var.dims, array.shape, var.shape, strict=True):
        first, last, _ = region.get(str(dim), slice(None)).indices(length)
        if dim == options.append_dim:
            first, last = length, length + given
        if last - first != given:
            raise InvalidArgument(
                f"variable {name!r} has length {given} along {dim!r}, expected"
                f" {max(0, last - first)}; append_dim extends an array, region writes a part of it"
            )
        start.append(first)
        shape.append(max(length, last))
    if options.write_empty_chunks is not None:
        array = array.with_config(
            replace(array.config, write_empty_chunks=options.write_empty_chunks)
        )
    return Piece(array, var, tuple(start), tuple(shape))


def _consolidate(top: Location, asked: bool) -> None:
    """Consolidate the metadata of a hierarchy; unless `asked`, only if the format can."""
    with suppress(*(() if asked else (errors.CannotExpress,))):
        consolidate_metadata(top.store, path=top.path)


def _store(pieces: list[Piece], group: Group, compute: bool) -> Any:
    """Store values, with tasks for Dask arrays, and then the new shapes."""
    larger = [(p.array, p.shape) for p in pieces if p.shape != p.array.shape]
    if compute:
        with growing(larger):
            later = _store_now(pieces)
            if later:
                run([p.tasks() for p in later], lambda: None, compute)
        group.refresh()
        return group
    _check_dask()

    rest = store_first(larger)

    def finish() -> Group:
        for array, shape in rest:
            store_shape(array, shape)
        group.refresh()
        return group

    later = _store_now(pieces)
    return run([p.tasks() for p in later], finish, compute)


def _check_dask() -> None:
    if not find_spec("dask"):
        raise errors.WrongType("compute=False needs Dask: pip install 'omnizarr[dask]'")


def _store_now(pieces: list[Piece]) -> list[Piece]:
    """Store the pieces that are in memory; return the others, which are Dask arrays."""
    for piece in pieces:
        if piece.values.chunks is None and piece.values.data.size:
            piece.store()
    return [p for p in pieces if p.values.chunks is not None]
