"""JSON that cannot be changed: what many nodes share is handed out without a copy.

The containers are still `dict` and `list`, so that they are written as JSON and compared with
plain ones. `copy.deepcopy` makes plain ones of them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NoReturn

_REFUSED = "it is shared by equal nodes and cannot be changed; copy.deepcopy gives a copy that can"


class FrozenDict(dict[str, Any]):
    """A dictionary that refuses to be changed."""

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(_REFUSED)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {name: copy.deepcopy(value, memo) for name, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A list that refuses to be changed."""

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(_REFUSED)

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = _refuse
    pop = remove = reverse = sort = _refuse

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [copy.deepcopy(value, memo) for value in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)


NOTHING = FrozenDict()
_PLAIN = frozenset({str, int, float, bool, type(None), bytes, FrozenDict, FrozenList})


def freeze(value: Any) -> Any:
    """Return JSON values in containers that cannot be changed; other objects as they are."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return FrozenDict({name: freeze(inner) for name, inner in value.items()})
    if isinstance(value, list):
        return FrozenList(map(freeze, value))
    return tuple(map(freeze, value)) if type(value) is tuple else value
