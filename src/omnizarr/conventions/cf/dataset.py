"""Dataset: a group in the NetCDF data model, with variables, dimensions, attributes and groups.

OGC 21-050, section 4.2: file → store, group → group, variable → array, attribute → attribute,
dimension → name of an array's axis. A dimension belongs to the topmost group that uses it, and is
visible in all groups below, as in NetCDF. NCZarr's own keys are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, Unpack

import numpy as np
import numpy.typing as npt

from omnizarr import Array, Group, create_array, create_group, errors
from omnizarr import open as open_zarr
from omnizarr.conventions.cf import variable
from omnizarr.conventions.cf.packing import FILL, Packing, encode_fill
from omnizarr.conventions.cf.times import bounds_of
from omnizarr.extension import ArrayOptions, MemoryStore, document_options


class Dataset(Mapping[str, variable.Variable]):
    """The variables of a group by name, decoded when they are read.

    A variable with invalid attributes raises when it is accessed; the others can still be used.
    """

    def __init__(
        self,
        group: Group,
        parent: Dataset | None = None,
        times: variable.TimesAs = "auto",
        fill_value_is_missing: bool | None = None,
        valid_only: bool = True,
    ) -> None:
        self.group = group
        self.parent = parent
        self._times: variable.TimesAs = times
        self._fill = fill_value_is_missing
        self._valid = valid_only

    # Variables

    @cached_property
    def _arrays(self) -> dict[str, Array]:
        return dict(self.group.arrays())

    def __getitem__(self, name: str) -> variable.Variable:
        here, _, rest = name.strip("/").partition("/")
        if rest and here in self.groups:
            return self.groups[here][rest]
        if rest or here not in self._arrays:
            known = errors.known_names(name, self._arrays)
            raise errors.NodeNotFound(f"unknown variable {name!r} in {self.group!r}; {known}")
        return self._decoded(self._arrays[here])

    def _decoded(self, array: Array) -> variable.Variable:
        return variable.decode(
            array,
            times=self._times,
            fill_value_is_missing=self._fill,
            valid_only=self._valid,
            inherited=self._bounds_attributes.get(array.path.rpartition("/")[2]),
        )

    @cached_property
    def _bounds_attributes(self) -> dict[str, dict[str, Any]]:
        """Attributes that the bounds of times inherit, by variable."""
        found: dict[str, dict[str, Any]] = {}
        for array in self._arrays.values():
            found |= bounds_of(array.attrs.asdict())
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def variables(self) -> Mapping[str, variable.Variable]:
        """The variables by name."""
        return self

    @cached_property
    def groups(self) -> dict[str, Dataset]:
        """The groups one level down by name."""
        return {n: self._below(g) for n, g in self.group.groups()}

    def _below(self, group: Group) -> Dataset:
        return Dataset(group, self, self._times, self._fill, self._valid)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the group, without NCZarr's own."""
        return variable.plain_attributes(self.group.attrs.asdict())

    @property
    def coordinates(self) -> dict[str, variable.Variable]:
        """Variables named like their only dimension, and those in `coordinates` attributes."""
        names = {n for n, a in self._arrays.items() if a.dimension_names == (n,)}
        for array in self._arrays.values():
            listed = array.attrs.get("coordinates")
            names.update(listed.split() if isinstance(listed, str) else ())
        return {name: self[name] for name in sorted(names) if name in self._arrays}

    # Dimensions

    @cached_property
    def dimensions(self) -> dict[str, int]:
        """The sizes of the dimensions that belong to this group.

        If variables disagree, the coordinate variable decides, or else the first variable;
        `problems` lists the disagreement.
        """
        found = self._declared()
        by_rank = sorted(
            self._arrays, key=lambda name: self._arrays[name].dimension_names != (name,)
        )
        for each in by_rank:
            for name, size in variable.named_axes(self._arrays[each]):
                if name is not None and not self._above(name, size):
                    found.setdefault(name, size)
        return found

    def dimension(self, name: str) -> int:
        """Return the size of a dimension of this group or of a parent group.

        Args:
            name: The name of the dimension.

        Raises:
            NodeNotFound: If there is no such dimension.

        Examples:
            >>> ocean = oz.cf.create("ocean.zarr")
            >>> salt = ocean.create_variable("salt", [34.5, 35], dimensions=["depth"])
            >>> ocean.dimension("depth")
            2
        """
        for dataset in self._upwards():
            if name in dataset.dimensions:
                return dataset.dimensions[name]
        raise errors.NodeNotFound(
            f"unknown dimension {name!r} in {self.group!r} and its parent groups"
        )

    def _above(self, name: str, size: int) -> bool:
        """Return True if a parent group has the dimension with the same size."""
        above = (each.dimensions for each in [*self._upwards()][1:])
        return next((sizes[name] for sizes in above if name in sizes), None) == size

    def _upwards(self) -> Iterator[Dataset]:
        """Yield this dataset and those above it."""
        dataset: Dataset | None = self
        while dataset is not None:
            yield dataset
            dataset = dataset.parent

    def _declared(self) -> dict[str, int]:
        """Return the dimensions that NCZarr lists in the group, used or not."""
        members = {**self.group.metadata.extra, **self.group.attrs.asdict()}
        for key, value in members.items():
            if key.lower() != "_nczarr_group" or not isinstance(value, dict):
                continue
            listed = value.get("dims", value.get("dimensions"))
            if isinstance(listed, dict):
                # An unlimited dimension is an object with its size.
                sizes = {n: s.get("size") if isinstance(s, dict) else s for n, s in listed.items()}
                return {n: s for n, s in sizes.items() if type(s) is int}
        return {}

    def problems(self) -> list[errors.Problem]:
        """Return inconsistencies here and below: sizes of dimensions, missing variables.

        Examples:
            >>> oz.cf.create("ocean.zarr").problems()
            []
        """
        found = []
        for array in self._arrays.values():
            for name, size in variable.named_axes(array):
                known = size if name is None else self.dimension(name)
                if known != size:
                    message = (
                        f"dimension {name!r} has length {size} here, but {known} in the dataset"
                    )
                    found.append(errors.Problem(array.path, "dimension_names", message))
            found += self._missing_variables(array)
        return found + [p for below in self.groups.values() for p in below.problems()]

    def _missing_variables(self, array: Array) -> list[errors.Problem]:
        """Return the problems of attributes that refer to missing variables."""
        texts = {a: array.attrs.get(a) for a in ("coordinates", "bounds", "grid_mapping")}
        named = [(a, t.split()) for a, t in texts.items() if isinstance(t, str) and ":" not in t]
        return [
            errors.Problem(array.path, attribute, f"there is no variable {other!r}", "warning")
            for attribute, others in named
            for other in others
            if "/" not in other and not any(other in each._arrays for each in self._upwards())
        ]

    # Writing

    @document_options(ArrayOptions)
    def create_variable(
        self,
        name: str,
        values: Any = None,
        *,
        dimensions: tuple[str, ...] | list[str],
        dtype: Any = None,
        shape: tuple[int, ...] | None = None,
        **options: Unpack[ArrayOptions],
    ) -> variable.Variable:
        """Create a variable; its values are encoded according to its attributes.

        Elements that were never written are `_FillValue`. Strings with ``dtype="S1"`` and one more
        dimension are stored as single characters.

        Args:
            name: The name of the variable.
            values: Its values.
            dimensions: The name of each axis.
            dtype: The stored type, by default the type of the values; times are stored as 64-bit
                integers.
            shape: The shape; by default the shape of the values, or of the dimensions.
            **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

        Returns:
            The variable.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.
            InvalidArgument: If a length differs from the length of a dimension, or a value
                cannot be encoded.

        Examples:
            >>> ocean = oz.cf.create("ocean.zarr")
            >>> packed = {"scale_factor": 0.5}
            >>> salt = ocean.create_variable(
            ...     "salt", [34.5, 35], dimensions=["depth"], dtype="i2", attributes=packed
            ... )
            >>> salt.array[:], salt[:]
            (array([69, 70], dtype=int16), array([34.5, 35. ]))
        """
        attributes = dict(options.get("attributes") or {})
        given = None if values is None else np.asarray(values)
        if given is not None and given.dtype == object and {*map(type, given.flat)} == {str}:
            given = given.astype(np.dtypes.StringDType())
        letters = 0  # of the longest string, if strings are stored as single characters
        joined = given is not None and len(dimensions) == given.ndim + 1
        if given is not None and joined and dtype is not None and np.dtype(dtype) == "S1":
            sizes = (len(t.encode() if isinstance(t, str) else t) for t in given.flat)
            letters = max(sizes, default=1) or 1
        if shape is None:
            shape = tuple(map(self.dimension, dimensions)) if given is None else given.shape
            shape = (*shape, letters) if letters else shape
        self._check_dimensions(name, tuple(dimensions), shape)
        stored = _stored_type(dtype, given, attributes)
        fills = Packing.of(stored, {FILL: attributes.get(FILL)}).missing
        fill = fills[0] if fills else None
        if not variable.fill_is_missing(self.group):
            if fill is not None:
                attributes[FILL] = encode_fill(fill, stored)
            else:
                fill = "" if stored.kind in "UT" else np.zeros((), stored)[()]
        options["attributes"] = attributes
        options["dimension_names"] = list(dimensions)
        options["fill_value"] = fill
        data = None if given is None else self._encoded(name, given, shape, stored, options)
        array = self.group.create_array(name, shape=shape, dtype=stored, data=data, **options)
        self._clear_cache()
        return self._decoded(array)

    def _encoded(
        self, name: str, values: Any, shape: Any, dtype: Any, options: ArrayOptions
    ) -> npt.NDArray[Any]:
        """Return values as a new variable stores them, which is found out with one in memory."""
        plain: Any = {"attributes": options["attributes"], "fill_value": options["fill_value"]}
        plain |= {"dimension_names": options["dimension_names"], "compressors": None}
        format = self.group.zarr_format
        array = create_array(
            MemoryStore(), path=name, shape=shape, dtype=dtype, zarr_format=format, **plain
        )
        self._decoded(array)[...] = values
        return np.asarray(array[...])

    def create_group(self, name: str, *, attributes: Mapping[str, Any] | None = None) -> Dataset:
        """Create a group below this one.

        Args:
            name: The name of the group.
            attributes: User attributes of a new node.

        Returns:
            The group as a dataset.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.

        Examples:
            >>> ocean = oz.cf.create("ocean.zarr")
            >>> deep = ocean.create_group("deep")
            >>> list(ocean.groups)
            ['deep']
        """
        group = self.group.create_group(name, attributes=dict(attributes or {}))
        self._clear_cache()
        return self._below(group)

    def _check_dimensions(self, name: str, dimensions: tuple[str, ...], shape: Any) -> None:
        if len(dimensions) != len(shape):
            raise errors.InvalidArgument(
                f"variable {name!r} has {len(shape)} axes, but dimensions {list(dimensions)}"
            )
        for dimension, size in zip(dimensions, shape, strict=True):
            known = self.dimensions.get(dimension, size)
            if known != size:
                raise errors.InvalidArgument(
                    f"variable {name!r}: dimension {dimension!r} has length {size} here, but"
                    f" {known} in {self.group.name}; use another name"
                )

    def _clear_cache(self) -> None:
        for name in ("_arrays", "_bounds_attributes", "groups", "dimensions"):
            self.__dict__.pop(name, None)

    def header(self) -> str:
        """Return dimensions, variables and attributes as indented text, including all groups.

        Examples:
            >>> ocean = oz.cf.create("ocean.zarr", attributes={"title": "Ocean"})
            >>> "title" in ocean.header()
            True
        """
        return "\n".join(_header(self, ""))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{n}: {s}" for n, s in self.dimensions.items())
        return f"<Dataset {self.group.name}  ({sizes})  {', '.join(self) or 'no variables'}>"


def open(
    store: Any,
    mode: Literal["r", "r+"] = "r",
    *,
    path: str | None = None,
    times: variable.TimesAs = "auto",
    fill_value_is_missing: bool | None = None,
    valid_only: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Open a group as a dataset.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        mode: ``"r"`` to read, ``"r+"`` to read and write.
        path: The path of the group in the store; by default the root.
        times: The type of times, as in `decode`, for all variables.
        fill_value_is_missing: True if the fill value is a missing value, as in `decode`.
        valid_only: False to ignore valid ranges, as in `decode`.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        The dataset.

    Raises:
        NodeNotFound: If there is no such node.
        WrongNode: If there is an array.

    Examples:
        >>> oz.save("ocean.zarr", salt=np.array([34.5, 35]))
        >>> oz.cf.open("ocean.zarr")["salt"][:]
        array([34.5, 35. ])
    """
    group = open_zarr(store, mode, path=path, storage_options=storage_options)
    if not isinstance(group, Group):
        raise errors.WrongNode(
            f"{group.name} in {group.store!r} is an array; open its parent group"
        )
    return Dataset(group, None, times, fill_value_is_missing, valid_only)


def create(
    store: Any,
    *,
    path: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    zarr_format: int | str | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Create an empty dataset.

    Args:
        store: A path, URL, dict, store or `StorePath`; None for memory.
        path: The path of the group in the store; by default the root.
        attributes: User attributes of a new node.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default as in the hierarchy, or 3.
        overwrite: True to replace an existing node.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        The dataset, for reading and writing.

    Raises:
        NodeExists: If there is a node at the path, and it may not be replaced.

    Examples:
        >>> oz.cf.create("ocean.zarr", attributes={"title": "Ocean"}).attributes
        {'title': 'Ocean'}
    """
    group = create_group(
        store, path=path, attributes=dict(attributes or {}), zarr_format=zarr_format,
        overwrite=overwrite, storage_options=storage_options,
    )  # fmt: skip
    return Dataset(group)


def _stored_type(dtype: Any, values: Any, attributes: Mapping[str, Any]) -> np.dtype[Any]:
    if hasattr(dtype, "_nc_type") or (isinstance(dtype, type) and dtype.__module__ == "netCDF4"):
        raise _user_defined(getattr(dtype, "name", repr(dtype)))
    if dtype is None and values is None:
        raise errors.InvalidArgument("values or dtype are required")
    if dtype is None:
        is_time = "since" in str(attributes.get("units", "")) and values.dtype.kind in "MO"
        dtype = "i8" if is_time else values.dtype
    found: np.dtype[Any] = np.dtype(dtype)
    if found.names is not None or found.kind in "VO":
        raise _user_defined(str(found))
    if found.kind in "Mm":
        raise errors.InvalidArgument(
            f"{found} is not a NetCDF type; use dtype='i8' with attributes such as"
            " units='seconds since 1970-01-01'"
        )
    return found


def _user_defined(name: str) -> errors.CannotExpress:
    return errors.CannotExpress(
        f"NetCDF's user-defined type {name} is not supported in datasets; store its fields as"
        " variables, or the array with create_array"
    )


def _header(dataset: Dataset, indent: str) -> Iterator[str]:
    for name, size in dataset.dimensions.items():
        yield f"{indent}dimension {name} = {size}"
    for name, array in dataset._arrays.items():
        axes = ", ".join(n or "-" for n, _ in variable.named_axes(array))
        yield f"{indent}{array.dtype} {name}({axes})"
        for key, value in variable.variable_attributes(array).items():
            yield f"{indent}    {key} = {value!r}"
    for key, value in dataset.attributes.items():
        yield f"{indent}:{key} = {value!r}"
    for name, below in dataset.groups.items():
        yield f"{indent}group {name}"
        yield from _header(below, indent + "    ")
