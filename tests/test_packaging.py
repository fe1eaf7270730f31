"""The extras in pyproject.toml, in the docs and in error messages agree; versions are shown."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import omnizarr as oz
from omnizarr.config import COMPILED

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_the_extra_all_includes_every_other_except_testing() -> None:
    (whole,) = map(Requirement, EXTRAS["all"])
    assert whole.name == PROJECT["name"]
    assert whole.extras == EXTRAS.keys() - {"all", "testing"}


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_extra_is_listed_in_the_docs(extra: str) -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    (section,) = re.findall(r"^## Optional packages$(.*)", page, re.M | re.S)
    (row,) = re.findall(rf"^\| `{extra}` \| (.*) \|$", section, re.M)
    for requirement in map(Requirement, EXTRAS[extra]):
        assert extra == "all" or requirement.name in row


def test_errors_name_existing_extras() -> None:
    texts = [path.read_text() for path in (ROOT / "src" / "omnizarr").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"omnizarr\[(\w+)\]", text)}
    assert named
    assert named <= EXTRAS.keys()


def test_supported_versions_of_python_are_those_of_the_package() -> None:
    text = (ROOT / "docs" / "policies.md").read_text()
    rows = dict(re.findall(r"^\| (Python.*?) \| (.*?) \|", text, re.M))
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert [*rows.pop("Python").split(", "), *(row.split()[1] for row in rows)] == classified
    assert PROJECT["requires-python"] == f">={classified[0]}"


def test_the_citation_is_of_this_version() -> None:
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {oz.__version__}" in lines
    assert f"license: {PROJECT['license']}" in lines
    assert lines[0] == "cff-version: 1.2.0"
    assert {"message", "title", "authors"} <= {line.partition(":")[0] for line in lines}


def test_a_source_distribution_has_every_file_of_the_repository() -> None:
    """`make dist` compares the real one; here MANIFEST.in with the folder."""
    lines = [line.split() for line in (ROOT / "MANIFEST.in").read_text().splitlines()]
    named = {name for command, *names in lines if command in ("graft", "include") for name in names}
    assert {name for name in named if not (ROOT / name).exists()} == set()
    # Always in it; pytest and make leave the others in the folder.
    always = {"LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py"}
    git = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    tracked = {name.partition("/")[0] for name in git.stdout.splitlines()} - {".gitignore"}
    assert tracked - named - always == set()
    compiled = {e for line in lines if line[0] == "global-exclude" for e in line[1:]}
    assert "*.so" in compiled


def test_the_licenses_of_linked_libraries_are_in_packages() -> None:
    assert set(PROJECT["license-files"]) == {"LICENSE", "licenses/*.txt"}
    listed = (ROOT / "licenses" / "README.txt").read_text()
    rows = re.findall(r"^(\S+) +(?:BSD-.-Clause|MIT|Zlib)\b", listed, re.M)
    files = {path.stem for path in (ROOT / "licenses").glob("*.txt")} - {"README"}
    assert set(rows) == files
    assert {"c-blosc2", "lz4", "zstd", "zlib-ng", "zfp"} <= files
    assert all(
        "opyright" in (ROOT / "licenses" / f"{f}.txt").read_text() or f == "zlib-ng" for f in files
    )


def shown() -> dict[str, str]:
    out = io.StringIO()
    oz.show_versions(out)
    return dict(line.split(": ", 1) for line in out.getvalue().splitlines() if ": " in line)


def test_the_versions_of_all_required_and_optional_packages_are_shown() -> None:
    """D9: crc32c was reported as missing although google-crc32c is used."""
    lines = shown()
    assert lines["omnizarr"].startswith(oz.__version__)
    assert lines["google-crc32c"] == version("google-crc32c")
    assert lines["obstore"] == version("obstore")
    assert lines["zarr"] == version("zarr")
    extras = [
        PROJECT["dependencies"],
        *(v for k, v in EXTRAS.items() if k not in ("all", "testing")),
    ]
    assert {Requirement(line).name for each in extras for line in each} <= lines.keys()
    assert "pytest" not in lines


def test_every_compiled_module_is_shown() -> None:
    built = re.findall(r'"omnizarr\.((?:\w+\.)*\w+)"', (ROOT / "setup.py").read_text())
    assert set(built) == set(COMPILED)
    assert all(shown()[name].startswith(("yes, for ", "no")) for name in COMPILED)


def test_missing_and_broken_compiled_modules_are_shown(tmp_path: Path) -> None:
    """A copy of the sources, whose kernel is not one of this Python."""
    package = tmp_path / "omnizarr"
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(Path(oz.__file__).parent, package, ignore=ignored)
    (package / "engine" / "_kernel.abi3.so").write_bytes(b"\x7fELF, but no more")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    program += (
        "import omnizarr; omnizarr.show_versions(); print(omnizarr.create_array(shape=3)[...])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    assert re.search(r"engine\._kernel: no \(.*_kernel\.abi3\.so.*\), for", done.stdout)
    assert "codecs._strings: no, for" in done.stdout
    assert done.stdout.endswith("[0. 0. 0.]\n")
