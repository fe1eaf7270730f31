"""What a forked process must not let go of."""

from __future__ import annotations

import ctypes
from typing import Any


def keep(inherited: Any) -> None:
    """Keep an object until the process ends.

    A connection that was inherited is watched by the parent; closing it here would make the
    kernel forget that, and the parent would wait forever.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))
