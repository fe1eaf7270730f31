"""Where a part of a dataset belongs in one that is stored: the option ``region``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from xarray import conventions

from omnizarr.errors import InvalidMetadata, NodeNotFound, NoSuchLabel, WrongType
from omnizarr.hierarchy.group import Group
from omnizarr.integrations.xarray_read import variable


def resolve_region(dataset: xr.Dataset, region: Any, group: Group) -> dict[str, slice]:
    """A slice for every dimension that the region names; ``"auto"`` finds it by coordinates."""
    if region == "auto":
        region = dict.fromkeys(dataset.dims, "auto")
    if not isinstance(region, Mapping):
        raise WrongType(f"region must be 'auto' or a dict of slices, got {region!r}")
    found: dict[str, slice] = {}
    for name, part in region.items():
        if name not in dataset.dims:
            known = ", ".join(map(str, dataset.dims))
            raise NoSuchLabel(f"region names {name!r}, which is no dimension; known: {known}")
        found[name] = _find(dataset, name, group) if part == "auto" else part
        if not isinstance(found[name], slice):
            raise WrongType(f"region of {name!r} must be a slice or 'auto', got {part!r}")
        if found[name].step not in (None, 1):
            raise InvalidMetadata(f"region of {name!r} must not have a step, got {part!r}")
    strangers = [n for n, v in dataset.variables.items() if not set(found) & set(v.dims)]
    if found and strangers:
        raise InvalidMetadata(
            f"variables {strangers} have no dimension of the region {sorted(found)};"
            f" leave them out with .drop_vars({strangers!r})"
        )
    return found


def _find(dataset: xr.Dataset, dim: str, group: Group) -> slice:
    """Where the coordinates of a dimension are stored; all of it where it has none."""
    if dim not in dataset.variables:
        return slice(0, dataset.sizes[dim])
    array = group.get(dim)
    if array is None:
        raise NodeNotFound(f"region 'auto' needs the coordinate {dim!r}, which is not stored")
    stored = conventions.decode_cf_variable(dim, variable(dim, array).load())
    places = pd.Index(stored.values).get_indexer(pd.Index(dataset[dim].values))
    if (places < 0).any():
        missing = dataset[dim].values[places < 0][0]
        raise NoSuchLabel(
            f"coordinate {dim!r} has {missing!r}, which is not stored; a region holds only"
            " coordinates that are there, append_dim adds new ones"
        )
    if (np.diff(places) != 1).any():
        raise InvalidMetadata(
            f"the values of coordinate {dim!r} do not follow each other where they are stored;"
            " write one run of them at a time"
        )
    return slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0)
