"""Growing arrays in steps: room beyond their ends that others see only when it is filled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from omnizarr.errors import InvalidMetadata
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.change import alone
from omnizarr.hierarchy.resize import with_shape


def with_room(array: Array, shape: tuple[int, ...]) -> Array:
    """A handle of the array as if it had a larger shape already; nothing is stored yet."""
    same_rank = len(shape) == array.ndim
    if not same_rank or any(n < old for n, old in zip(shape, array.shape, strict=True)):
        raise InvalidMetadata(f"cannot make room: {shape} is not larger than {array.shape}")
    larger = Array.at(array._location, with_shape(array._model, shape))
    larger._config = array._config
    return larger


@contextmanager
def growing(larger: Sequence[tuple[Array, tuple[int, ...]]]) -> Iterator[None]:
    """Keep others from growing arrays while their room is filled; then store the shapes.

    Raises before anything is filled where an array has another shape than its handle knows.
    """
    with alone(*(array._location for array, _ in larger)):
        for array, shape in larger:
            known = array.shape
            array.refresh()
            if array.shape != known:
                raise _changed(array, known, shape)
        yield
        for array, shape in larger:
            take_room(array, shape)


def take_room(array: Array, shape: tuple[int, ...]) -> None:
    """Store the larger shape, now that the room is filled; raises where the array changed since.

    The shape is compared and replaced. Whoever has not kept others away by `growing` may have
    filled the same room as they.
    """
    old = array.shape
    if not array._take_shape(old, shape):
        raise _changed(array, old, shape)


def _changed(array: Array, known: tuple[int, ...], shape: tuple[int, ...]) -> InvalidMetadata:
    return InvalidMetadata(
        f"{array._location} has shape {array.shape} now, it had {known} when {shape} was begun;"
        " another writer changed it, append again"
    )
