"""Record the calls of Python functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import ParamSpec, TypeVar

import omnizarr as oz

P = ParamSpec("P")
T = TypeVar("T")
PACKAGE = str(Path(oz.__file__).parent)


def python_calls(
    function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> tuple[T, list[CodeType]]:
    """Return what a function returns, and all Python functions that are called for it."""
    called = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code) if event == "call" else None)
    try:
        result = function(*args, **kwargs)
    finally:
        sys.setprofile(None)
    return result, called
