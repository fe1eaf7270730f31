"""The structure of the code: imports, knowledge of versions, and public names."""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import re
import shutil
import subprocess
import sys

import pytest

import omnizarr
from omnizarr.engine import kernel
from tests.architecture.sources import MODULES, SOURCE, parsed
from tests.servers.skipped import COMPILER

ROOT = SOURCE.parents[1]
VERSIONS = (1, 2, 3, "1", "2", "3", "3-draft")
PUBLIC = """
Array CannotExpress ChunkError Conflict Group InvalidArgument InvalidMetadata InvalidName
MissingChunk MissingPackage NoSuchLabel NodeChanged NodeExists NodeNotFound OmnizarrError
OmnizarrWarning ReadOnly SelectionError StoreError TargetError UnknownExtension View
WrongNode WrongType aio as_zarr batches cf codecs config configure consolidate_metadata convert
copy create_array create_group create_hierarchy diff disk_usage errors export_file from_dask geo
import_file jobs load ome open preview pyramid rechunk register repair run save serve serving
show_versions stats storage suggest_chunks trace undo_conversion validate verify view_as xarray zarr
"""


def test_importing_loads_no_optional_package_and_nothing_slow() -> None:
    code = "import sys, omnizarr; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(result.stdout.split())
    assert "omnizarr" in loaded
    unwanted = "numpy numcodecs click rich ml_dtypes msgpack zarr tensorstore email"
    assert loaded & {*unwanted.split()} == set()


@pytest.mark.skipif(shutil.which("cc") is None, reason=COMPILER)
def test_the_compiled_modules_are_built_if_there_is_a_compiler() -> None:
    names = re.findall(r'"(omnizarr(?:\.\w+)+)"', (ROOT / "setup.py").read_text())
    assert len(names) >= 4
    for name in names:
        assert importlib.import_module(name).__spec__.origin.endswith(  # type: ignore[union-attr]
            tuple(importlib.machinery.EXTENSION_SUFFIXES)
        )
    assert kernel.available()


def decisions_by_version(tree: ast.Module) -> list[str]:
    """Return the expressions that decide by the number of a Zarr version."""
    return [
        ast.unparse(part)
        for node in ast.walk(tree)
        for part in _deciding(node)
        if _names_a_format(part) and _versions(part)
    ]


def _deciding(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, (ast.Compare, ast.Subscript, ast.Match)):
        return [node]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return [node] if node.func.attr == "get" and isinstance(node.func.value, ast.Dict) else []
    return []


def _names_a_format(part: ast.AST) -> bool:
    words = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
    words |= {node.attr for node in ast.walk(part) if isinstance(node, ast.Attribute)}
    keys = {node.value for node in ast.walk(part) if isinstance(node, ast.Constant)}
    return bool(words & {"zarr_format", "format", "format_"}) or "zarr_format" in keys


def _versions(part: ast.AST) -> set[object]:
    """Return the version numbers in what is compared, matched, or used as a key."""
    if isinstance(part, ast.Match):
        where: list[ast.AST] = [case.pattern for case in part.cases]
    elif isinstance(part, ast.Compare):
        where = [part.left, *part.comparators]
    else:
        where = [n for n in ast.walk(part) if isinstance(n, ast.Dict)]
        where = [key for table in where for key in table.keys if key]  # type: ignore[attr-defined]
    found = {n.value for w in where for n in ast.walk(w) if isinstance(n, ast.Constant)}
    return {v for v in found if v in VERSIONS and not isinstance(v, bool)}


KEYS = re.compile(
    r"\.zarray|\.zgroup|\.zattrs|\.zmetadata|zarr\.json|\.(array|group)\.json|\bmeta/|_ARRAY_DIMENSIONS"
)
ALLOWED = {  # why these may name keys or formats
    "interop/zarr": "zarr-python's properties depend on the version of an array",
    "stores/references": "Parquet references are a layout of version 2 metadata",
    "stores/zip/records.py": "RFC-9 orders the entries of a ZIP file by the name zarr.json",
    "testing": "keys of the store suites are examples of what users store",
}


def knowledge_of_formats(tree: ast.Module) -> list[str]:
    """Return the names of metadata keys and of single formats in code, other than in docstrings."""
    nodes = [*ast.walk(tree)]
    docstrings = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body
        if isinstance(node.body[0], ast.Expr)
    }
    found = [
        repr(node.value)
        for node in nodes
        if isinstance(node, ast.Constant) and id(node) not in docstrings
        if isinstance(node.value, str) and KEYS.search(node.value)
    ]
    found += [
        f"{node.module}.{name.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("omnizarr.formats")
        for name in node.names
        if name.name in ("V1", "V2", "V3", "V3Draft")
    ]
    return found + [
        ast.unparse(node)
        for node in nodes
        if isinstance(node, ast.Compare)
        and any(isinstance(n, ast.Attribute) and n.attr == "name" for n in ast.walk(node))
        and any(isinstance(n, ast.Constant) and n.value in VERSIONS[3:] for n in ast.walk(node))
    ]


FOUND = (
    *("if zarr_format == 2: ...", "old = 3 > array.zarr_format", "a if 2 == f.format else b"),
    *("if node.zarr_format in (1, 2): ...", "if document['zarr_format'] != 3: ..."),
    *("if format.name == '3-draft': ...", "if str(self.format.name) in {'1', '2'}: ..."),
    *("match zarr_format:\n    case 2: ...", "key = {2: 'a', 3: 'b'}[zarr_format]"),
    *("{1: a}.get(node.zarr_format)", "key = '.zarray'", "store.get(f'{path}/zarr.json')"),
    *("del attributes['_ARRAY_DIMENSIONS']", "raise NodeNotFound('no .zgroup here')"),
    *(
        "from omnizarr.formats import V2",
        "if '3-draft' != goal.name: ...",
        "k = 'meta/a.array.json'",
    ),
)
NOT_FOUND = (
    *("if zarr_format == other.zarr_format: ...", "if zarr_format is None: ...", "f.read(2)"),
    *("make(zarr_format=2)", "x = documents['zarr_format']", "n = array.ndim == 2"),
    *("def f():\n    '''Read zarr.json.'''", "from omnizarr.formats import by_name"),
    *("if a.name == b.name: ...", "if unit == '2': ...", "from chunk_key_encodings import V2"),
)


@pytest.mark.parametrize(
    ("code", "found"), [*((c, True) for c in FOUND), *((c, False) for c in NOT_FOUND)]
)
def test_knowledge_of_a_format_is_found_in_every_notation(code: str, found: bool) -> None:
    tree = ast.parse(code)
    assert bool(decisions_by_version(tree) + knowledge_of_formats(tree)) == found


def test_only_formats_knows_versions_and_their_keys() -> None:
    found = {
        name: decisions_by_version(parsed(path)) + knowledge_of_formats(parsed(path))
        for path in MODULES
        for name in [path.relative_to(SOURCE).as_posix()]
        if not name.startswith(("formats/", *ALLOWED))
    }
    assert {name: places for name, places in found.items() if places} == {}


def test_the_public_names_are_these() -> None:
    assert sorted(set(omnizarr.__all__) - {"__version__"}) == PUBLIC.split()
    for name in PUBLIC.split():
        assert getattr(omnizarr, name) is not None
        assert name in dir(omnizarr)


def test_every_error_is_one_of_the_tree_and_a_builtin() -> None:
    errors = [
        value
        for value in vars(omnizarr.errors).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    for error in errors:
        if error in (omnizarr.OmnizarrError, omnizarr.OmnizarrWarning, omnizarr.MissingPackage):
            continue  # of the last each is one of its two kinds
        assert issubclass(error, omnizarr.OmnizarrError)
        builtin = [b for b in error.__mro__ if b.__module__ == "builtins"]
        assert set(builtin) - {Exception, BaseException, object}, error
        assert error.__name__ in (omnizarr.errors.__doc__ or "")
