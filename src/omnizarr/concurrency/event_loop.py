"""One event loop in a thread of its own, for libraries that only have coroutines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from omnizarr.concurrency import fork
from omnizarr.concurrency.pool import INTERRUPT_WAIT, start_thread

T = TypeVar("T")
_loop: asyncio.AbstractEventLoop | None = None
_lock = fork.lock()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine; the caller's own event loop has no part in it.

    An interrupt cancels it, and waits for it to end for `INTERRUPT_WAIT`.
    """
    ended = threading.Event()

    async def whole() -> T:
        try:
            return await work
        finally:
            ended.set()

    future = asyncio.run_coroutine_threadsafe(whole(), _running())
    try:
        return future.result()
    except BaseException:  # of the coroutine, or of a signal handler
        if not future.done():
            future.cancel()
            ended.wait(INTERRUPT_WAIT)
        raise


def _running() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            if not start_thread(loop.run_forever, "omnizarr-loop"):
                raise RuntimeError("cannot start a thread for an event loop")
            _loop = loop
        return _loop


def _reset() -> None:
    """Have a forked child, which has no thread that runs the loop, make its own."""
    global _loop
    _loop = None


fork.on_fork(in_child=_reset)
