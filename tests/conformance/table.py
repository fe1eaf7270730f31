"""The table in docs/generated/conformance.md, kept in sync with the tests.

Tests name the rows that they show with ``@pytest.mark.shows("V1-04")``. After adding one, run
``python -m tests.conformance.table`` from the top of the project to rewrite the last column.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from tests.conformance.unmet import PARTLY, UNMET

TESTS = Path(__file__).parents[1]
TABLE = TESTS.parent / "docs" / "generated" / "conformance.md"
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
