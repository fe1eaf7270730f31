"""New arrays by what they hold at first, or by an array that they are to resemble.

Options are those of `create_array`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.create import create_array, open_array
from omnizarr.hierarchy.make import like
from omnizarr.hierarchy.options import ZERO, CreateOptions
from omnizarr.hierarchy.signatures import shows


@shows(CreateOptions)
def empty(
    shape: int | Iterable[int], *, store: Any = None, **options: Unpack[CreateOptions]
) -> Array:
    """A new array whose values do not matter; they are the default fill value."""
    return create_array(store, shape=shape, **options)


@shows(CreateOptions)
def zeros(
    shape: int | Iterable[int], *, store: Any = None, **options: Unpack[CreateOptions]
) -> Array:
    """A new array of zeros."""
    given: Any = {"fill_value": ZERO, **options}
    return create_array(store, shape=shape, **given)


@shows(CreateOptions)
def ones(
    shape: int | Iterable[int], *, store: Any = None, **options: Unpack[CreateOptions]
) -> Array:
    """A new array of ones."""
    given: Any = {"fill_value": 1, **options}
    return create_array(store, shape=shape, **given)


@shows(CreateOptions)
def full(
    shape: int | Iterable[int], fill_value: Any, *, store: Any = None, **options: Any
) -> Array:
    """A new array of one value."""
    return create_array(store, shape=shape, fill_value=fill_value, **options)


@shows(CreateOptions)
def empty_like(a: Any, **options: Any) -> Array:
    """A new array with the shape, type and chunks of another, whose values do not matter."""
    return empty(**like(a, options))


@shows(CreateOptions)
def zeros_like(a: Any, **options: Any) -> Array:
    """A new array of zeros with the shape, type and chunks of another."""
    return zeros(**like(a, {"fill_value": ZERO, **options}))


@shows(CreateOptions)
def ones_like(a: Any, **options: Any) -> Array:
    """A new array of ones with the shape, type and chunks of another."""
    return ones(**like(a, {"fill_value": 1, **options}))


@shows(CreateOptions)
def full_like(a: Any, fill_value: Any = None, **options: Any) -> Array:
    """A new array of one value with the shape, type and chunks of another.

    Without a value it has that of the other array.
    """
    given = options if fill_value is None else {"fill_value": fill_value, **options}
    found = like(a, given)
    if "fill_value" not in found:
        raise TypeError(f"{type(a).__name__} has no fill value; give fill_value")
    return full(**found)


@shows(CreateOptions)
def open_like(a: Any, path: str | None = None, **options: Any) -> Array:
    """The array at a path, created there like another where it does not exist."""
    given = {"mode": "a", **like(a, options)}
    return open_array(given.pop("store", None), path=path, **given)
