"""The shape of the code base: what it imports, where versions are known, what is public."""

from __future__ import annotations

import importlib
import importlib.machinery
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import omnizarr
from omnizarr.engine import kernel
from tests.servers.skipped import COMPILER

SOURCE = Path(omnizarr.__file__).parent
ROOT = SOURCE.parents[1]
PUBLIC = [
    "Array",
    "BZ2",
    "Blosc",
    "CannotExpress",
    "ChunkError",
    "DBMStore",
    "DirectoryStore",
    "GZip",
    "Group",
    "InvalidMetadata",
    "InvalidName",
    "LMDBStore",
    "LZMA",
    "LocalStore",
    "MemoryStore",
    "MissingChunk",
    "MissingPackage",
    "NestedDirectoryStore",
    "NoSuchLabel",
    "NodeExists",
    "NodeNotFound",
    "OmnizarrError",
    "OmnizarrWarning",
    "Problem",
    "ReadOnly",
    "RedisStore",
    "SQLiteStore",
    "SelectionError",
    "StoreError",
    "UnknownExtension",
    "View",
    "WrongNode",
    "WrongType",
    "ZipStore",
    "Zlib",
    "Zstd",
    "aio",
    "array",
    "cf",
    "codecs",
    "config",
    "configure",
    "consolidate_metadata",
    "convert",
    "copy",
    "copy_all",
    "copy_store",
    "create",
    "create_array",
    "create_group",
    "create_hierarchy",
    "empty",
    "empty_like",
    "errors",
    "from_array",
    "from_dask",
    "full",
    "full_like",
    "geo",
    "group",
    "init_store",
    "load",
    "ome",
    "ones",
    "ones_like",
    "open",
    "open_array",
    "open_consolidated",
    "open_group",
    "open_like",
    "print_debug_info",
    "register",
    "repair",
    "save",
    "save_array",
    "save_group",
    "storage",
    "tree",
    "validate",
    "verify",
    "xarray",
    "zeros",
    "zeros_like",
]


def test_importing_loads_no_optional_package_and_nothing_slow() -> None:
    code = "import sys, omnizarr; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(result.stdout.split())
    assert "numpy" in loaded
    unwanted = {"numcodecs", "click", "rich", "ml_dtypes", "msgpack", "zarr", "tensorstore"}
    assert loaded & unwanted == set()


@pytest.mark.skipif(shutil.which("cc") is None, reason=COMPILER)
def test_the_compiled_parts_are_built_where_there_is_a_compiler() -> None:
    names = re.findall(r'"(omnizarr(?:\.\w+)+)"', (ROOT / "setup.py").read_text())
    assert len(names) >= 4
    for name in names:
        assert importlib.import_module(name).__spec__.origin.endswith(  # type: ignore[union-attr]
            tuple(importlib.machinery.EXTENSION_SUFFIXES)
        )
    assert kernel.available()


def test_only_formats_knows_version_numbers() -> None:
    pattern = re.compile(r"zarr_format\s*(==|!=|<|>|in\b)|format\.name\s*(==|!=|in\b)")
    found = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in sorted(SOURCE.rglob("*.py"))
        if "formats" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_no_file_has_grown_past_one_concept() -> None:
    sizes = {
        str(path.relative_to(SOURCE)): len(path.read_text().splitlines())
        for path in SOURCE.rglob("*.py")
    }
    assert {name: size for name, size in sizes.items() if size > 600} == {}


def test_the_public_names_are_these() -> None:
    assert sorted(set(omnizarr.__all__) - {"__version__"}) == PUBLIC
    for name in PUBLIC:
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
