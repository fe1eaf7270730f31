"""Attributes of a node, and changes of its metadata that lose nobody else's change.

Threads of one process take turns, and so do processes where a store can lock keys. Where it can
compare and replace, others are noticed, and the change is made again on what they stored.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, Self, TypeVar

from omnizarr._json import plain
from omnizarr.concurrency import key_locks
from omnizarr.concurrency.retry import Overtaken, retry_conflicts
from omnizarr.errors import warn
from omnizarr.hierarchy.location import Location
from omnizarr.model import Node, paths
from omnizarr.stores import SetsIf, Versioned, lock, lock_prefix, supports_compare_and_set

T = TypeVar("T")
_MISSING: Any = object()


class Write(Protocol):
    """Changes the attributes as they are stored now, and gives back what the change gave."""

    def __call__(self, edit: Callable[[dict[str, Any]], T]) -> T: ...


class Attributes(MutableMapping[str, Any]):
    """User attributes; any JSON values, also from NumPy scalars and arrays.

    Shown as the node's documents were last read (``refresh()`` reads them again). Every change
    starts from what is stored at that moment, so that two handles which set two attributes keep
    both. Lists and dictionaries are copies: assign them again, or `edit`, to store a change inside.
    """

    def __init__(self, read: Callable[[], Mapping[str, Any]], write: Write) -> None:
        self._read = read
        self._write = write

    def __getitem__(self, name: str) -> Any:
        return copy.deepcopy(self._read()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._read()))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __len__(self) -> int:
        return len(self._read())

    def __contains__(self, name: object) -> bool:
        return name in self._read()

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several attributes with one write."""
        new = json_attributes(dict(*args, **kwargs))
        self._write(lambda attributes: attributes.update(new))

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The attribute; set to `default` first where nobody has set it yet."""
        new = json_attributes({name: default})[name]
        return copy.deepcopy(self._write(lambda attributes: attributes.setdefault(name, new)))

    def pop(self, name: str, default: Any = _MISSING) -> Any:
        """Remove an attribute, and give back its value, or `default` where there is none."""

        def take(attributes: dict[str, Any]) -> Any:
            return attributes.pop(name) if default is _MISSING else attributes.pop(name, default)

        return self._write(take)

    def popitem(self) -> tuple[str, Any]:
        """Remove an attribute, and give back its name and value."""
        return self._write(lambda attributes: attributes.popitem())

    def clear(self) -> None:
        """Remove all attributes with one write."""
        self._write(lambda attributes: attributes.clear())

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes with one write."""
        new = json_attributes(attributes)

        def replace(old: dict[str, Any]) -> None:
            old.clear()
            old.update(new)

        self._write(replace)

    def edit(self, change: Callable[[dict[str, Any]], T]) -> T:
        """What `change` gives, called with the attributes as they are stored now, to be altered.

        They are stored with one write. It may be called again where another writer was quicker.
        """
        return self._write(change)

    def asdict(self) -> dict[str, Any]:
        """A plain copy."""
        return copy.deepcopy(dict(self._read()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self._read()) == dict(other)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return repr(self.asdict())


def json_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes in plain JSON types."""

    def special(where: str, value: float) -> None:
        warn(
            f"{where} is {value!r}, which JSON lacks; it is stored as a string",
        )

    converted: dict[str, Any] = plain(attributes, "attributes", special)
    return converted


def change(location: Location, edit: Callable[[Node], Node]) -> Node:
    """The node after `edit`, which gets it as it is stored now and may be called again."""
    location.check_writable()
    keys = location.format.keys(location.path)

    def attempt() -> Node:
        put = _put_if_same(location, keys)
        old = location.load()
        new = edit(old)
        if new is old:
            return old
        return location.save(None if getattr(old, "implicit", False) else old, new, put)

    with (
        key_locks.locked(
            key_locks.METADATA,
            keys,
            None if supports_compare_and_set(location.store) else location.store,
        ),
        lock(location.store, _directory(keys), keys, "documents"),
    ):
        return retry_conflicts(attempt, "; nothing was stored, try again")


@contextmanager
def alone(*locations: Location) -> Iterator[None]:
    """Keep others, who do this too, from changing shapes and the chunks that they show."""
    every = [(at, at.format.keys(at.path)) for at in sorted(locations, key=lambda at: at.path)]
    for location in locations:
        location.check_writable()
    store = locations[0].store if locations else None  # of one group, so the same
    with (
        key_locks.locked(key_locks.SHAPE, [key for _, keys in every for key in keys], store),
        ExitStack() as held,
    ):
        for location, keys in every:
            held.enter_context(lock_prefix(location.store, _directory(keys), keys, "shape"))
        yield


def _directory(keys: tuple[str, ...]) -> str:
    """The prefix that a node's documents have in common, whatever the root of the store."""
    return paths.prefix(keys[0].rpartition("/")[0])


def _put_if_same(
    location: Location, keys: tuple[str, ...]
) -> Callable[[str, bytes | None], None] | None:
    """What stores a document only if it is still the one of now; None where a store cannot."""
    store = location.store
    if not hasattr(store, "set_if"):  # quicker than to ask for the protocol
        return None
    if not isinstance(store, SetsIf) or not isinstance(store, Versioned):
        return None
    compared, versioned = store, store
    now = {key: store.generation(key) for key in keys}

    def put(key: str, text: bytes | None) -> None:
        if text is None:
            if versioned.generation(key) != now[key]:
                raise Overtaken(str(location))
            location.store.erase(key)
        elif not compared.set_if(key, text, now[key]):
            raise Overtaken(str(location))

    return put
