"""Functions in forked processes, which may be killed."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable


def in_child(act: Callable[[], object], seconds: float | None = None) -> int:
    """Run a function in a forked process; return its exit code, negative if it was killed.

    It is killed after some seconds if they are given.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
