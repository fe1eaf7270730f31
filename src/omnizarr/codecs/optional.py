"""Packages that make a codec quicker and that it can do without."""

from __future__ import annotations

import importlib
from typing import Any


def optional(package: str) -> Any:
    """The module, or None where it is not installed or cannot be loaded."""
    try:
        return importlib.import_module(package)
    except ImportError:
        return None
