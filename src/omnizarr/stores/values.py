"""Values on their way into a store."""

from __future__ import annotations

from hashlib import blake2b
from typing import overload

from omnizarr.stores.store import Bytes


def flat(value: Bytes) -> bytes | memoryview:
    """The bytes of a value, without a copy; TypeError where it is no contiguous buffer."""
    if isinstance(value, bytes):
        return value
    view = memoryview(value)
    return view.cast("B") if view.nbytes else b""


@overload
def digest(value: None) -> None: ...
@overload
def digest(value: Bytes) -> str: ...
@overload
def digest(value: Bytes | None) -> str | None: ...
def digest(value: Bytes | None) -> str | None:
    """A generation for databases that keep none: a text that another value does not have."""
    return None if value is None else blake2b(value, digest_size=16).hexdigest()
