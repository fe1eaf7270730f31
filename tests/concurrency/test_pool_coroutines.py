"""The event loop for libraries that only have coroutines."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import pytest

from omnizarr.concurrency.pool import run_coroutine


def test_an_interrupt_is_raised_when_the_cancelled_coroutine_has_ended() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.2)
            ended.set()

    def interrupt() -> None:
        begun.wait()
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_coroutine(work())
        assert ended.is_set()
    finally:
        signal.signal(signal.SIGINT, before)
