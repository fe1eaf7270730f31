"""Attributes of a node: a mapping whose changes are stored at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from copy import deepcopy
from typing import Any

from omnizarr._json import plain
from omnizarr.errors import OmnizarrWarning


class Attributes(MutableMapping[str, Any]):
    """User attributes; any JSON values, also from NumPy scalars and arrays.

    Lists and objects are handed out as copies: to change one, assign it.
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, Any]],
        write: Callable[[Callable[[dict[str, Any]], None]], None],
    ) -> None:
        self._read = read
        self._write = write

    def __getitem__(self, name: str) -> Any:
        return deepcopy(self._read()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __contains__(self, name: object) -> bool:
        return name in self._read()

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        def change(attributes: dict[str, Any]) -> None:
            del attributes[name]

        self._write(change)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several attributes with one write."""
        new = json_attributes(dict(*args, **kwargs))
        self._write(lambda attributes: attributes.update(new))

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes."""
        new = json_attributes(attributes)

        def change(old: dict[str, Any]) -> None:
            old.clear()
            old.update(new)

        self._write(change)

    def asdict(self) -> dict[str, Any]:
        """A plain copy."""
        return deepcopy(dict(self._read()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return repr(self.asdict())


def json_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes in plain JSON types."""

    def special(where: str, value: float) -> None:
        warnings.warn(
            f"{where} is {value!r}, which JSON lacks; it is stored as a string",
            OmnizarrWarning,
            stacklevel=5,
        )

    converted: dict[str, Any] = plain(attributes, "attributes", special)
    return converted
