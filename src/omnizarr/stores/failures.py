"""Failures of a back end become errors that name the key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from omnizarr.errors import OmnizarrError, StoreError


def of_the_system(error: OSError) -> bool:
    """Whether the system raised it, and not a signal handler that happened to run just then.

    A ``TimeoutError`` of a handler is not the store's; its ``FileNotFoundError`` proves nothing.
    """
    return error.errno is not None and not isinstance(error, OmnizarrError)


@contextmanager
def naming(
    verb: str, what: object, store: object, kinds: tuple[type[Exception], ...] = (OSError,)
) -> Iterator[None]:
    """Turn errors of a back end, of the given kinds, into one that says what was tried."""
    try:
        yield
    except kinds as e:
        if isinstance(e, TimeoutError | FileNotFoundError) and not of_the_system(e):
            raise
        reason = (e.strerror if isinstance(e, OSError) else None) or e
        raise StoreError(f"cannot {verb} {what!r} in {store!r}: {reason}") from e
