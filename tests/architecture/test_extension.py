"""Annexes stand on the public names of the core and on the names of `omnizarr.extension`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import omnizarr
from tests.architecture.sources import MODULES, SOURCE, parsed

ANNEXES = ("bulk", "conventions", "interop", "viewer", "cli")
DOORS = ("cf", "errors", "extension", "geo", "jobs", "ome", "registry", "storage", "xarray")


def _modules() -> list[Path]:
    return [path for path in MODULES if path.relative_to(SOURCE).parts[0] in ANNEXES]


def imports_of_the_core(tree: ast.Module) -> Iterator[str]:
    """Yield the modules of the core, other than its doors, from which code imports."""
    for node in ast.walk(tree):
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
    assert len(list(imports_of_the_core(ast.parse(code)))) == 3
    code = "from omnizarr import Array, registry\nfrom omnizarr.extension import Location"
    assert list(imports_of_the_core(ast.parse(code))) == []


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_annexes_use_public_names_and_the_door(path: Path) -> None:
    assert list(imports_of_the_core(parsed(path))) == []


def _imported(paths: Iterable[Path], module: str = "") -> set[str]:
    """Return the names that files import from the package, or from one module of it."""
    nodes = (node for path in paths for node in ast.walk(parsed(path)))
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


# Private names of other packages that are also names of the core.
FOREIGN = {
    "bulk/rechunk/job.py": {"_replace"},  # of named tuples
    "bulk/source_keys.py": {"_replace"},
    "interop/xarray/engine.py": {"_data"},  # of xarray's variables
    "interop/zarr/pipeline_batches.py": {"_check_writable"},  # of zarr-python's stores
}


def _part(path: Path) -> str:
    """Return the annex of a module, or "core"."""
    first = path.relative_to(SOURCE).parts[0]
    return first if first in ANNEXES else "core"


def _private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def defined_names(tree: ast.AST) -> Iterator[str]:
    """Yield the private names that a module defines, as attributes too."""
    for node in ast.walk(tree):
        name = getattr(node, "name", getattr(node, "id", getattr(node, "attr", "")))
        stored = isinstance(getattr(node, "ctx", ast.Store()), ast.Store)
        if stored and isinstance(name, str) and _private(name):
            yield name


def foreign_attributes(tree: ast.AST, own: set[str], others: set[str]) -> Iterator[str]:
    """Yield the private attributes of others, besides those that a class inherits."""
    foreign = others - own
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in foreign:
            inherited = ast.unparse(node.value) in ("self", "cls", "super()")
            if not inherited:
                yield node.attr
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("omnizarr"):
            yield from (a.name for a in node.names if _private(a.name) and a.name not in own)


def test_foreign_attributes_are_found() -> None:
    code = "from omnizarr.hierarchy import _a\nx._b\nself._b\nx._c"
    assert [*foreign_attributes(ast.parse(code), {"_c"}, {"_b", "_c"})] == ["_a", "_b"]
    code = "class _A:\n def _f(self): self._x = _y\n_z = self._w"
    assert {*defined_names(ast.parse(code))} == {"_A", "_f", "_x", "_z"}


def test_no_annex_uses_a_private_name_of_another_folder() -> None:
    own: dict[str, set[str]] = {}
    for path in MODULES:  # the blocks of bulk are compiled
        own.setdefault(_part(path), {"_blocks"}).update(defined_names(parsed(path)))
    found = {}
    for path in _modules():
        others = set().union(*(names for part, names in own.items() if part != _part(path)))
        used = {*foreign_attributes(parsed(path), own[_part(path)], others)}
        name = str(path.relative_to(SOURCE))
        if used - FOREIGN.get(name, set()):
            found[name] = used
    assert found == {}
