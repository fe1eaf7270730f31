"""Dimension names in formats that have no field for them: the attribute of xarray.

Files that NetCDF-C writes as NCZarr, without that attribute, name them in a field of their own:
``"_NCZARR_ARRAY": {"dimrefs": ["/time", "/lat"]}``, since NetCDF-C 4.9.3
``"_nczarr_array": {"dimension_references": [...]}``. It is read and never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnizarr.errors import InvalidMetadata, Problem
from omnizarr.formats.format import cannot
from omnizarr.model import ArrayModel

ATTRIBUTE = "_ARRAY_DIMENSIONS"
_NCZARR = {"_nczarr_array": "dimension_references", "_NCZARR_ARRAY": "dimrefs"}


def from_attributes(
    attributes: Mapping[str, Any], rank: int, key: str, problems: list[Problem]
) -> tuple[str, ...] | None:
    """The names, where the attribute has a string for every axis; another value is a problem."""
    if ATTRIBUTE not in attributes:
        return None
    names = _names(attributes[ATTRIBUTE], rank)
    if names is None:
        message = f"{_expected(attributes, rank)}; the names are ignored"
        problems.append(Problem(key, ATTRIBUTE, message, "warning"))
    return names


def check_attributes(attributes: Mapping[str, Any], rank: int) -> None:
    """Raise where the attribute does not name every axis."""
    if ATTRIBUTE in attributes and _names(attributes[ATTRIBUTE], rank) is None:
        raise InvalidMetadata(f"{ATTRIBUTE}: {_expected(attributes, rank)}")


def without_misfit(attributes: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """The attributes, but for names that no reader uses because they do not fit."""
    fits = ATTRIBUTE in attributes and _names(attributes[ATTRIBUTE], rank) is not None
    return {k: v for k, v in attributes.items() if k != ATTRIBUTE or fits}


def from_nczarr(places: Mapping[str, Any], rank: int) -> tuple[str, ...] | None:
    """The names in NCZarr's own field, without the groups that their paths start with."""
    for field, member in _NCZARR.items():
        stated = places.get(field)
        names = _names(stated.get(member), rank) if isinstance(stated, dict) else None
        if names is not None:
            return tuple(name.rpartition("/")[2] for name in names)
    return None


def is_nczarr(name: str) -> bool:
    """Whether a field or attribute is one that NetCDF-C keeps for itself."""
    return name.lower().startswith("_nczarr_")


def to_attributes(array: ArrayModel, format_name: str) -> dict[str, Any]:
    """The attributes with the array's dimension names among them."""
    attributes = dict(array.attributes)
    names = array.dimension_names
    if names is None or (names and not any(names)):
        return attributes
    if None in names:
        raise cannot(format_name, f"names for only some dimensions {names}")
    return {**attributes, ATTRIBUTE: list(names)}


def beside_field(array: ArrayModel) -> dict[str, Any]:
    """The attributes without names that the field `dimension_names` already has."""
    attributes = dict(array.attributes)
    if array.dimension_names is not None and attributes.get(ATTRIBUTE) == list(
        array.dimension_names
    ):
        del attributes[ATTRIBUTE]
    return attributes


def _names(stated: Any, rank: int) -> tuple[str, ...] | None:
    good = (
        isinstance(stated, list)
        and len(stated) == rank
        and all(isinstance(name, str) for name in stated)
    )
    return tuple(stated) if good else None


def _expected(attributes: Mapping[str, Any], rank: int) -> str:
    return f"expected a list of {rank} strings, one per axis, got {attributes[ATTRIBUTE]!r}"
