"""Growing an array in steps: room beyond its end that others see only when it is filled."""

from __future__ import annotations

from omnizarr.errors import InvalidMetadata
from omnizarr.hierarchy.array import Array
from omnizarr.stores.turns import DOCUMENTS, turn


def with_room(array: Array, shape: tuple[int, ...]) -> Array:
    """A handle of the array as if it had a larger shape already; nothing is stored yet."""
    same_rank = len(shape) == array.ndim
    if not same_rank or any(n < old for n, old in zip(shape, array.shape, strict=True)):
        raise InvalidMetadata(f"cannot make room: {shape} is not larger than {array.shape}")
    larger = Array.at(array._location, array._model.with_(shape=shape))
    larger._config = array._config
    return larger


def take_room(array: Array, shape: tuple[int, ...]) -> None:
    """Store the larger shape, now that the room is filled; raises where the array changed since."""
    old = array.shape
    with turn(DOCUMENTS, array._location.format.keys(array.path)):
        if not array._take_shape(old, shape):
            raise InvalidMetadata(
                f"{array._location} has shape {array.shape} now, it had {old} when {shape} was"
                " begun; another writer changed it, append again"
            )
