"""Plain words: docstrings are sentences, and names need no glossary."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture.sources import MODULES, SOURCE, parsed

FRAGMENT = re.compile(r"\s*(Whether|What|How|Where|Which|Why|When|Who)\b")
# Phrases that no native speaker would write in a summary.
CLUMSY = re.compile(
    r"\b(so many|no more than|what (is|was|were) (given|there|stored|written)|of theirs|ends it"
    r"|that of|those that|whatever|had better)\b"
)
# Words that this code base once used for locks, retries, thread pools, budgets and caches.
PRIVATE = {
    *("allowance", "crew", "holes", "owned", "patience", "patiently", "redone", "remembered"),
    *("settled", "surplus", "telling", "turn", "turns", "undone", "withheld"),
}


def _parts(name: str) -> set[str]:
    """Return the words of a name: of CamelCase, snake_case and CAPITALS."""
    return {w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module defines."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg


def test_docstrings_are_sentences() -> None:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [
        f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 1)}"
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, kinds)
        for text in [ast.get_docstring(node) or ""]
        if FRAGMENT.match(text) or CLUMSY.search(text.partition("\n\n")[0])
    ]
    assert found == []


def test_names_are_words_of_the_field() -> None:
    found = {
        f"{path.relative_to(SOURCE)}: {name}"
        for path in MODULES
        for name in (path.stem, *_names(parsed(path)))
        if _parts(name) & PRIVATE
    }
    assert found == set()


def test_the_checks_find_what_they_look_for() -> None:
    assert FRAGMENT.match("Whether a key exists.")
    assert not FRAGMENT.match("Return whether a key exists.")
    assert CLUMSY.search("Return so many chunks.")
    assert _parts("TakeTurns") == {"take", "turns"}
    assert _parts("PATIENCE") & _parts("_patience_left") & PRIVATE
    assert list(_names(ast.parse("self._remembered = 1"))) == ["_remembered"]
    assert list(_names(ast.parse("def f(patience):\n    crew = 1"))) == ["f", "patience", "crew"]
