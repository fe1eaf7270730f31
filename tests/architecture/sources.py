"""The modules of the package, each parsed once for all tests of this folder."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import omnizarr

SOURCE = Path(omnizarr.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text())
