"""Forked processes, which end, stop or starve at one of their changes (`shim.c`)."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from omnizarr.errors import OmnizarrError

OFF, COUNT, EXIT, STOP, FULL = range(5)
REACHED = 77  # the exit code of a process that ended at its point
LONGEST = 60.0  # seconds until what runs alone must have ended
SHIM = ctypes.CDLL(None)
LOADED: set[str] = set(sys.modules)


class Child:
    """A forked process that calls a function; `wait` returns its state."""

    def __init__(self, function: Callable[..., Any], *given: Any) -> None:
        self.file = os.memfd_create("result")
        self.pid = os.fork()
        self.code: int | None = None
        if self.pid:
            return
        try:
            gc.disable()
            warnings.simplefilter("ignore")
            try:
                result = "ok", function(*given)
            except OmnizarrError as e:
                result = type(e).__name__, str(e)
            except BaseException as e:
                result = f"bare {type(e).__name__}", str(e)
            SHIM.crash_arm(b"/", OFF, 0, -1)
            loaded = [name for name in sys.modules if name not in LOADED]
            os.write(self.file, pickle.dumps((result, loaded)))
        finally:
            os._exit(0)

    def wait(self, seconds: float = LONGEST) -> str:
        """Return "ended", "stopped" or "running" after at most some seconds."""
        end, pause = time.monotonic() + seconds, 0.0002
        while self.code is None:
            found, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if found and os.WIFSTOPPED(status):
                return "stopped"
            if found:
                self.code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                return "running"
            else:
                time.sleep(pause)
                pause = min(2 * pause, 0.003)
        return "ended"

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    @property
    def result(self) -> tuple[str, Any]:
        """The word "ok" and the result, or the class of an error and its text."""
        if self.wait() != "ended":
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
            return "hung", f"still running after {LONGEST:g} s"
        if self.code:
            return ("killed" if self.code == REACHED else f"exit {self.code}"), None
        found: tuple[str, Any]
        found, loaded = pickle.loads(os.pread(self.file, 2**24, 0))
        for name in loaded:  # so that later children need not
            LOADED.add(name)
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        return found

    def close(self) -> None:
        os.close(self.file)


def call(function: Callable[..., Any], *given: Any) -> tuple[str, Any]:
    """Return the result of a function that runs in a child."""
    child = Child(function, *given)
    try:
        return child.result
    finally:
        child.close()
