"""File descriptors: a process has a limit of them, which threads that all read files may reach.

Those of other threads are free again in a moment, so it is worth waiting for one.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
NONE_LEFT = (errno.EMFILE, errno.ENFILE)
WAITS = tuple(0.001 * 2**n for n in range(7))  # seconds; an eighth of one in all


def patiently(call: Callable[[], T]) -> T:
    """What `call` gives; tried again for a moment where there is no descriptor for it."""
    for wait in WAITS:
        try:
            return call()
        except OSError as e:
            if e.errno not in NONE_LEFT:
                raise
        time.sleep(wait)
    return call()


def shortage() -> str:
    """What the system says where no file can be opened now, which libraries may not pass on."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as e:
        return e.strerror or str(e)
    return ""
