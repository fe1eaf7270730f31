"""Stores declare their abilities: no other package checks for a store's class."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

import pytest

from tests.architecture.sources import MODULES, SOURCE, parsed


@functools.cache
def concrete_stores() -> frozenset[str]:
    """Return the names of all classes in `stores/` that are stores, not protocols."""
    trees = (parsed(path) for path in MODULES if path.is_relative_to(SOURCE / "stores"))
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return frozenset(
        node.name
        for node in classes
        if node.name.endswith("Store") and "Protocol" not in map(ast.unparse, node.bases)
    )


def checks(tree: ast.Module, stores: frozenset[str]) -> Iterator[str]:
    """Yield every comparison and isinstance check that names a store class of omnizarr."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if (node.module or "").partition(".")[0] == "omnizarr"]
    names = {alias.asname or alias.name for node in ours for alias in node.names}
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        asks = isinstance(called, ast.Name) and called.id in ("isinstance", "issubclass")
        if not asks and not isinstance(node, ast.Compare | ast.MatchClass):
            continue
        for part in ast.walk(node):
            of_name = isinstance(part, ast.Name) and part.id in stores & names
            of_module = (
                isinstance(part, ast.Attribute)
                and part.attr in stores
                and isinstance(part.value, ast.Name)
                and part.value.id in names
            )
            if of_name or of_module:
                yield f"line {node.lineno}: {ast.unparse(node)}"


def test_no_module_outside_stores_asks_for_the_class_of_a_store() -> None:
    stores = concrete_stores()
    found = {
        str(path.relative_to(SOURCE)): [*checks(parsed(path), stores)]
        for path in MODULES
        if "stores" not in path.parts
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "check",
    [
        "isinstance(store, LocalStore)",
        "isinstance(store, LocalStore | MemoryStore)",
        "isinstance(store, (stores.LocalStore, str))",
        "type(store) is MemoryStore",
        "type(store) in (LocalStore, MemoryStore)",
        "type(store).set is LocalStore.set",
    ],
)
def test_the_guard_finds_a_check(check: str) -> None:
    source = "from omnizarr import stores\nfrom omnizarr.stores import LocalStore, MemoryStore\n"
    assert [*checks(ast.parse(source + check), concrete_stores())]


def test_the_guard_lets_stores_of_zarr_python_pass() -> None:
    source = "from zarr import storage as zarr_stores\nisinstance(s, zarr_stores.LocalStore)\n"
    assert [*checks(ast.parse(source), concrete_stores())] == []
