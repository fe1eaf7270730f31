"""One event loop in a thread of its own, for libraries that only speak async."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_guard = threading.RLock()
_loop: asyncio.AbstractEventLoop | None = None


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, waited for; the caller's own event loop has no part in it."""
    future = asyncio.run_coroutine_threadsafe(work, _running())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _running() -> asyncio.AbstractEventLoop:
    global _loop
    with _guard:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="omnizarr-loop", daemon=True).start()
        return _loop


def _forget() -> None:
    """A forked child has no thread that runs the loop, and makes its own when it needs one."""
    global _guard, _loop
    _guard, _loop = threading.RLock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
