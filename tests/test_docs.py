"""Every example in the documents runs; that of README is run by its own test."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def examples(document: Path) -> list[tuple[int, str]]:
    """The Python blocks of a document, each with the line that it starts at."""
    text = document.read_text()
    return [
        (text.count("\n", 0, block.start()) + 1, block[2])
        for block in BLOCK.finditer(text)
        if block[1] == "python"
    ]


WITH_EXAMPLES = [document for document in DOCUMENTS[1:] if examples(document)]


@pytest.mark.parametrize("document", WITH_EXAMPLES, ids=lambda d: str(d.relative_to(ROOT)))
def test_the_examples_of_a_document_run_one_after_the_other(document: Path, in_tmp: Path) -> None:
    names: dict[str, object] = {"__name__": "example"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for line, code in examples(document):
            # Line numbers as in the document, for whoever reads the traceback.
            exec(compile("\n" * line + code, str(document), "exec"), names)


def test_no_example_hides_behind_another_name_for_python() -> None:
    found = {block[1] for document in DOCUMENTS for block in BLOCK.finditer(document.read_text())}
    assert found <= {"", "python", "json", "console"}
    assert {d.name for d in WITH_EXAMPLES} >= {"views.md", "groups.md", "aio.md"}
