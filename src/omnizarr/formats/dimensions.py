"""Dimension names in formats that have no field for them: the attribute of xarray."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnizarr.formats.format import cannot
from omnizarr.model import ArrayModel

ATTRIBUTE = "_ARRAY_DIMENSIONS"


def from_attributes(attributes: Mapping[str, Any], rank: int) -> tuple[str | None, ...] | None:
    """The names, where the attribute has a string for every axis."""
    stated = attributes.get(ATTRIBUTE)
    good = (
        isinstance(stated, list)
        and len(stated) == rank
        and all(isinstance(name, str) for name in stated)
    )
    return tuple(stated) if good and stated is not None else None


def to_attributes(array: ArrayModel, format_name: str) -> dict[str, Any]:
    """The attributes with the array's dimension names among them."""
    attributes = dict(array.attributes)
    if array.dimension_names is None or (array.shape and not any(array.dimension_names)):
        return attributes
    if None in array.dimension_names:
        raise cannot(format_name, f"names for only some dimensions {array.dimension_names}")
    return {**attributes, ATTRIBUTE: list(array.dimension_names)}


def beside_field(array: ArrayModel) -> dict[str, Any]:
    """The attributes without names that the field `dimension_names` already has."""
    attributes = dict(array.attributes)
    if array.dimension_names and attributes.get(ATTRIBUTE) == list(array.dimension_names):
        del attributes[ATTRIBUTE]
    return attributes
