"""The shape of the C code: layers, names, sizes of signatures, headers and ownership."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.sampling import sample

ROOT = Path(__file__).parents[2] / "src"
FOLDERS = ("include", "files", "kernel", "strings", "blocks")
FILES = sorted(f for folder in FOLDERS for f in (ROOT / folder).rglob("*.[ch]"))
SOURCES = [f for f in FILES if f.suffix == ".c"]
MAX_PARAMETERS = 7

# From bottom to top: a file includes headers of its own layer and of those below.
LAYERS = {
    "kernel": ["include", "files", "kernel", "codecs", "rows", "chunks", "python"],
    "files": ["include", "files"],
    "strings": ["include", "strings"],
    "blocks": ["include", "blocks"],
    "include": ["include"],
}
# Inside a layer: the files of the kernel that others of the same layer may use, from bottom to top.
ORDER = {
    "codecs": ["workspace", "input", "bundled", "codecs", "pipeline"],
    "rows": ["box", "shard_index", "rows", "elements", "output"],
    "chunks": ["read", "shards", "write", "batch"],
}

pytestmark = pytest.mark.skipif(not ROOT.joinpath("kernel").is_dir(), reason="no C sources here")


def code(file: Path) -> str:
    """Return a file without comments, texts and lines for the preprocessor."""
    text = re.sub(r"/\*.*?\*/", " ", file.read_text(), flags=re.DOTALL)
    text = re.sub(r"^[ \t]*#(?:\\\n|.)*$", "", text, flags=re.MULTILINE)
    return re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', '""', text)


def top_level(file: Path) -> Iterator[tuple[str, bool]]:
    """Yield declarations outside of braces, and True for those with a body."""
    text, depth, start = code(file), 0, 0
    body = False
    head = ""
    for at, c in enumerate(text):
        if c == "{":
            if depth == 0:
                head += text[start:at]
                body = True
            depth += 1
        elif c == "}":
            depth -= 1
            start = at + 1
            if depth == 0 and re.search(r"\)\s*$", head):  # of a function
                yield " ".join(head.split()), True
                head, body = "", False
        elif c == ";" and depth == 0:
            yield " ".join((head + text[start:at]).split()), body
            head, body, start = "", False, at + 1


def functions(file: Path) -> Iterator[tuple[str, str, str, bool]]:
    """Yield the name, what is before it, the parameters, and True for a definition."""
    for text, body in top_level(file):
        text = re.sub(r"__attribute__\s*\(\(.*?\)\)\s*|^(?:[A-Z_0-9]+\([^()]*\) )+", "", text)
        found = re.match(r"([\w\s*]*?[\s*])(\w+) ?\((.*)\)$", text)
        if found and not text.startswith("typedef"):
            yield found[2], found[1], found[3], body


def parameters(text: str) -> int:
    while "(" in text:
        text = re.sub(r"\([^()]*\)", "", text)
    return 0 if text.strip() in ("", "void") else text.count(",") + 1


def layer(file: Path) -> tuple[str, str]:
    """Return the module and the layer of a file."""
    parts = file.relative_to(ROOT).parts
    return parts[0], parts[-2]


def included(file: Path) -> Iterator[Path]:
    """Yield our own headers that a file includes."""
    for name in re.findall(r'^#include "(.+)"', file.read_text(), flags=re.MULTILINE):
        folders = (file.parent, ROOT / "kernel", ROOT / "files", ROOT / "include")
        found = [folder / name for folder in folders if (folder / name).is_file()]
        assert found, f"{file.name} includes {name}, which is not one of our headers"
        yield found[0]


def test_the_parser_finds_functions() -> None:
    names = {name for file in FILES for name, *_ in functions(file)}
    assert {"oz_crc32c", "oz_copy_box", "by_table", "oz_atomic_file_open", "run"} <= names
    assert len(names) > 200


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_headers_are_included_downwards_only(file: Path) -> None:
    module, own = layer(file)
    order = LAYERS[module]
    for header in included(file):
        _, other = layer(header)
        assert other in order, f"{file.name} includes {header.name} of another module"
        assert order.index(other) <= order.index(own), (
            f"{file.name} includes {header.name} above it"
        )
        names = ORDER.get(own, [])
        if other == own and header.stem != file.stem and file.stem in names:
            assert names.index(header.stem) < names.index(file.stem), (
                f"{file.name} and {header.name} are in the wrong order"
            )


def test_every_header_can_be_included_first_and_has_a_guard() -> None:
    for file in FILES:
        if file.suffix == ".h":
            guard = f"OZ_{file.stem.upper()}_H"
            assert f"#ifndef {guard}\n#define {guard}\n" in file.read_text(), file


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_functions_have_a_prefix_or_are_static_and_few_parameters(file: Path) -> None:
    foreign = file.name == "bundled.h"  # of LZ4 and zstd
    for name, before, inside, body in functions(file):
        assert parameters(inside) <= MAX_PARAMETERS, f"{name} has too many parameters"
        if "static" in before.split() or "PyMODINIT_FUNC" in before or foreign:
            continue
        assert name.startswith("oz_"), f"{name} is neither static nor has the prefix"
        assert body or file.suffix == ".h", f"{name} is declared outside of a header"


def test_nothing_is_declared_extern_by_hand() -> None:
    for file in SOURCES:
        assert not re.search(r"^\s*extern\b", code(file), flags=re.MULTILINE), file


def test_failures_are_a_status_and_no_other_number() -> None:
    for file in FILES:
        returned = re.findall(r"return -1;|[?:] -1;", code(file))
        descriptors = file.name == "atomic_file.c"  # open_unnamed returns one
        assert len(returned) == descriptors, (file, returned)


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_pointers_in_structs_and_new_memory_state_their_owner(file: Path) -> None:
    lines = file.read_text().splitlines()
    depth = struct = 0
    for number, line in enumerate(lines):
        bare = re.sub(r"/\*.*", "", line)
        if re.match(r"(typedef )?struct\b.*\{$", bare.strip()):
            struct = depth + 1
        depth += bare.count("{") - bare.count("}")
        if depth < struct:
            struct = 0
        member = struct and re.match(r"\s+[\w\s()]+\*+\w+(, \*+\w+)*(\[\])?;", bare)
        made = re.search(r"\w+ \*\w+ = [^;]*\b(malloc|calloc|strdup|PyMem_\w+)\(", bare)
        if member or made:
            around = " ".join(lines[max(0, number - 3) : number + 2]).lower()
            assert re.search(r"\bowned|\bborrow|new reference", around), (
                f"{line.strip()}: who owns it?"
            )


def compiled(folder: Path) -> Iterator[Path]:
    """Yield object files: of a build where OMNIZARR_C_OBJECTS says so, else a sample made here."""
    given = os.environ.get("OMNIZARR_C_OBJECTS")
    if given:
        found = sorted(Path(given).rglob("*.o"))
        assert len(found) >= len(SOURCES)
        yield from found
        return
    compiler = shutil.which("cc")
    if compiler is None or shutil.which("nm") is None:
        pytest.skip("there is no compiler")
    blosc2 = importlib.util.find_spec("blosc2")
    system = [sysconfig.get_path("include"), np.get_include()]
    if blosc2 is not None:
        system += [f"{folder}/include" for folder in blosc2.submodule_search_locations or ()]
    own = [ROOT / "kernel", ROOT / "files", ROOT / "include"]
    include = [f"-I{path}" for path in (*own, *system)]
    for number, source in enumerate(sample(SOURCES, 8)):
        if "blosc2.h" in source.read_text() and blosc2 is None:
            continue  # the build has it, not the tests; make sanitize looks at those too
        target = folder / f"{number}-{source.stem}.o"
        subprocess.run(
            [compiler, "-c", "-std=gnu11", "-fPIC", *include, str(source), "-o", str(target)],
            check=True,
        )
        yield target


def test_external_symbols_of_the_objects_have_the_prefix(tmp_path: Path) -> None:
    for file in compiled(tmp_path):
        listed = subprocess.run(
            ["nm", "-g", "--defined-only", str(file)], check=True, capture_output=True, text=True
        ).stdout
        symbols = [line.split()[-1].lstrip("_") for line in listed.splitlines()]
        ours = [s for s in symbols if not s.startswith(("odr_asan", "asan_", "ubsan_"))]
        wrong = [s for s in ours if not s.startswith(("oz_", "PyInit_"))]
        assert not wrong, (file, wrong)
