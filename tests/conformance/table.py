"""The table in docs/generated/conformance.md, kept in sync with the tests.

Tests name the rows that they show with ``@pytest.mark.shows("V1-04")``. After adding one, run
``python -m tests.conformance.table`` from the top of the project to rewrite the last column.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
TABLE = TESTS.parent / "docs" / "generated" / "conformance.md"
# Requirements that are not met, or only in part, each with the reason.
UNMET: dict[str, str] = {
    "DX-27": "not offered: writing in place or appending would give up atomic replacement",
    "SH-25": "not offered: shards are replaced as a whole, so that a crash cannot tear one",
}

PARTLY: dict[str, str] = {
    "D3-08": "creating such a node is refused; an existing one opens with a warning",
    "D3-10": "case-insensitive file systems are simulated; not tested on Windows",
    "D3-35": "an array codec after a bytes codec is refused (D3-33); the specification says may",
    "D3-75": "stores accept any Unicode key, as in version 3; for such nodes see D3-08",
    "D3-96": "opening by path reads the entry point and one batch of two metadata keys",
    "DX-50": "the Windows part is simulated",
    "V3-29": "`__x`, which occurs in practice, is created with a warning",
    "V3-33": "see D3-10",
    "V3-34": "a node with such a name, which occurs in practice, is listed with a warning",
    "V3-37": "0 and 1, as written by zarrita, are read with a warning",
    "V3-38": "null, as written by GDAL, is read as 0 with a warning",
    "V3-54": "not registered but written: float8_e4m3fn; raw_bytes and others as in zarr-python",
    "V3-57": "an explicit 0 for an empty axis is written as 1, not refused (V3-97)",
    "V3-68": "chunks of shards are fetched one by one; a Blosc chunk is fetched as a whole",
    "V3-86": "the Windows part is simulated",
    "V3-90": "see V3-34",
    "V3-102": "see V3-34",
}
# Number of rows in each group; numbers are never reused.
GROUPS = {
    "V1": 39,
    "V2": 77,
    "GEO": 35,
    "D3": 122,
    "DX": 55,
    "V3": 107,
    "SH": 31,
    "ZEP": 21,
    "OME": 34,
}
_ROW = re.compile(r"\| ([A-Z0-9]+-\d+) \| (.*) \| ([^|]*) \|")


def all_ids() -> list[str]:
    """Return every id, in order."""
    return [f"{group}-{n:02d}" for group, count in GROUPS.items() for n in range(1, count + 1)]


@functools.cache  # the tests do not change during a run
def shown() -> dict[str, list[str]]:
    """Return the tests that show each row, as ``file::test``."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if "mark.shows" not in text:
            continue
        tree = ast.parse(text)
        everywhere = _module_ids(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            ids = [i for decorator in node.decorator_list for i in _ids(decorator)]
            for id_ in [*everywhere, *ids]:
                tests = found.setdefault(id_, [])
                tests.append(f"{path.relative_to(TESTS)}::{node.name}")
    return found


def _module_ids(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets
        ):
            return _ids(node.value)
    return []


def _ids(decorator: ast.expr) -> list[str]:
    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("mark.shows"):
        return [a.value for a in decorator.args if isinstance(a, ast.Constant)]
    return []


def rows() -> dict[str, tuple[str, str]]:
    """Return the text and the last column of each row in the table."""
    matches = (_ROW.fullmatch(line) for line in TABLE.read_text().splitlines())
    return {m[1]: (m[2], m[3]) for m in matches if m}


def evidence(id_: str, tests: dict[str, list[str]]) -> str:
    """Return the last column of a row."""
    if id_ in UNMET:
        some = f"; so far `{tests[id_][0]}`" if id_ in tests else ""
        return f"*not yet*: {UNMET[id_]}{some}"
    names = tests.get(id_, [])
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    part = f"; *in part*: {PARTLY[id_]}" if id_ in PARTLY else ""
    return ", ".join(f"`{name}`" for name in names[:2]) + more + part


def rewrite() -> None:
    """Update the last column."""
    tests = shown()
    lines = []
    for line in TABLE.read_text().splitlines():
        match = _ROW.fullmatch(line)
        lines.append(
            line if match is None else f"| {match[1]} | {match[2]} | {evidence(match[1], tests)} |"
        )
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    rewrite()
