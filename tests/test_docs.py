"""Every example in the docs runs; README, stores.md and tutorials have their own tests."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.config import Config
from tests.tutorials import BLOCK, PAGES, examples

ROOT = Path(__file__).parents[1]
OWN_TEST = {ROOT / "README.md", ROOT / "docs" / "stores.md", *PAGES}
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = [d for d in DOCUMENTS if d not in OWN_TEST and examples(d)]


def microscopy() -> dict[str, object]:
    """Create the data that docs/ome.md assumes."""
    field = np.ones((32, 32), "u2")
    cells = np.ones((2, 16, 64, 64), "u2")
    oz.ome.write(
        "cells.ome.zarr",
        cells,
        axes="czyx",
        scale=(1, 1, 0.5, 0.5),
        unit="micrometer",
        levels=2,
        channels=["membranes", "nuclei"],
    )
    labels = np.zeros((16, 64, 64), "u1")
    oz.ome.write_labels("cells.ome.zarr", "nuclei", labels, colors={1: (255, 0, 0, 255)})
    oz.ome.write_plate("fields.zarr", {"A/1": [field]})
    return {
        "oz": oz,
        "plate": oz.ome.open("fields.zarr"),
        "volume": np.ones((64, 64, 64), "u2"),
        "labels": np.zeros((64, 64, 64), "u1"),
        "field0": field,
        "field1": field,
    }


def hierarchies() -> dict[str, object]:
    """Create the data that docs/bulk.md assumes."""
    values = np.arange(24 * 20 * 30, dtype="f8").reshape(24, 20, 30)
    names = ["time", "lat", "lon"]
    for name in ("by-time", "raw", "many-files", "a", "ocean", "copy"):
        group = oz.create_group(f"{name}.zarr")
        group.create_array("temp", data=values, chunks=(1, 20, 30), dimension_names=names)
    for name in ("old", "broken"):
        oz.create_array(f"{name}.zarr", data=values, zarr_format=2)
    oz.create_array("scan.zarr", path="0", data=values)
    oz.create_array("volume.zarr", data=values)
    return {"oz": oz}


# What the examples of a document take for granted.
GIVEN: dict[str, Callable[[], dict[str, object]]] = {
    "bulk.md": hierarchies,
    "ome.md": microscopy,
}
# Pages whose examples change zarr for the whole process.
ALONE = {"zarr-python.md"}


@pytest.mark.parametrize(
    "document",
    [d for d in WITH_EXAMPLES if d.name not in ALONE],
    ids=lambda d: str(d.relative_to(ROOT)),
)
def test_the_examples_of_a_page_run_in_order(document: Path, in_tmp: Path) -> None:
    names: dict[str, object] = {"__name__": "example"}
    names |= GIVEN.get(document.name, dict)()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for line, code in examples(document):
            # Line numbers of the page, for tracebacks.
            program = compile("\n" * line + code, str(document), "exec", dont_inherit=True)
            exec(program, names)


@pytest.mark.parametrize("name", sorted(ALONE))
def test_the_examples_of_a_page_run_in_a_process_of_their_own(name: str, in_tmp: Path) -> None:
    program = "\n".join(code for _, code in examples(ROOT / "docs" / name))
    command = [sys.executable, "-W", "error::UserWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_python_blocks_are_marked_as_python() -> None:
    found = {block[1] for document in DOCUMENTS for block in BLOCK.finditer(document.read_text())}
    assert found <= {"", "python", "json", "console", "text", "toml"}
    assert {d.name for d in WITH_EXAMPLES} >= {"views.md", "groups.md", "aio.md"}


def test_every_setting_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    defaults = {f.name: f.default for f in fields(Config)}
    assert rows.keys() == defaults.keys()
    for name, default in defaults.items():
        if isinstance(default, str | int):
            quoted = f'"{default}"' if isinstance(default, str) else str(default)
            assert rows[name].strip("`") == quoted


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = set(re.findall(r"\(([\w-]+\.md)\)", (ROOT / "docs" / "README.md").read_text()))
    assert listed == {d.name for d in (ROOT / "docs").glob("*.md")} - {"README.md"}
