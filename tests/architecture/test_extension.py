"""Annexes stand on the public names of the core and on the names of `omnizarr.extension`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import omnizarr

SOURCE = Path(omnizarr.__file__).parent
ANNEXES = ("bulk", "conventions", "interop", "viewer", "cli")
DOORS = ("cf", "errors", "extension", "geo", "jobs", "ome", "registry", "storage", "xarray")


def _modules() -> list[Path]:
    return sorted(path for annex in ANNEXES for path in (SOURCE / annex).rglob("*.py"))


def imports_of_the_core(code: str) -> Iterator[str]:
    """Yield the modules of the core, other than its doors, from which code imports."""
    for node in ast.walk(ast.parse(code)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, _, inside = name.partition(".")
            if package == "omnizarr" and inside:
                first = inside.partition(".")[0]
                if first not in (*ANNEXES, *DOORS):
                    yield name
        if isinstance(node, ast.ImportFrom) and node.module == "omnizarr":
            public = {*dir(omnizarr), *DOORS}
            yield from (f"omnizarr.{a.name}" for a in node.names if a.name not in public)


def test_imports_are_found_in_every_notation() -> None:
    code = "import omnizarr.stores\nfrom omnizarr.engine import read\nfrom omnizarr import stores"
    assert len(list(imports_of_the_core(code))) == 3
    code = "from omnizarr import Array, registry\nfrom omnizarr.extension import Location"
    assert list(imports_of_the_core(code)) == []


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_annexes_use_public_names_and_the_door(path: Path) -> None:
    assert list(imports_of_the_core(path.read_text())) == []


def _imported(paths: Iterable[Path], module: str = "") -> set[str]:
    """Return the names that files import from the package, or from one module of it."""
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    froms = (node for node in nodes if isinstance(node, ast.ImportFrom))
    wanted = (node for node in froms if (node.module or "").startswith(module or "omnizarr"))
    return {alias.name for node in wanted for alias in node.names} - {"*"}


def door_names() -> set[str]:
    """Return the names that the door imports from the core."""
    return _imported((SOURCE / "extension").glob("*.py"))


def test_an_annex_uses_every_name_of_the_door() -> None:
    code = "".join(path.read_text() for path in _modules())
    used = _imported(_modules(), "omnizarr.extension") | {*re.findall(r"\bextension\.(\w+)", code)}
    assert door_names() - used == set()
