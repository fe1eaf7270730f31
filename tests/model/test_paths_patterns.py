"""Patterns of names, paths and keys."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnizarr.model.paths import Patterns, pattern_regex


@given(st.text("ab*?.[]!", max_size=6), st.text("ab.[]!", max_size=5))
def test_patterns_of_names_are_those_of_fnmatch(pattern: str, name: str) -> None:
    if "**" in pattern or "[" in pattern:  # which fnmatch takes for the same, or corrects
        return
    assert bool(pattern_regex(pattern).fullmatch(name)) == fnmatchcase(name, pattern)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a/*", ["a/b", "a/.z"], ["a", "a/b/c", "b/a/b"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a/b"]),
        ("**/b", ["b", "a/b", "a/c/b"], ["a/bb", "b/a"]),
        ("**", ["a", "a/b"], []),
        ("temp[0-3]", ["temp0", "temp3"], ["temp4", "temp"]),
        ("temp[!0-3]", ["temp4"], ["temp0", "temp"]),
        ("a.b", ["a.b"], ["axb"]),
        ("a[", ["a["], ["a"]),
    ],
)
def test_a_star_does_not_cross_a_slash_and_two_do(
    pattern: str, yes: list[str], no: list[str]
) -> None:
    regex = pattern_regex(pattern)
    assert [text for text in (*yes, *no) if regex.fullmatch(text)] == yes


@pytest.mark.parametrize("path", ["x[1]", "a/x[1]", "x1"])
def test_a_name_with_brackets_matches_itself(path: str) -> None:
    assert Patterns.of("x[1]").match_node(path)
    assert not Patterns.of("x[1]").match_node("x2")


def test_a_node_matches_with_all_below_it() -> None:
    assert Patterns.of("a").match_node("a/b")
    assert Patterns.of(["c", "a/*"]).match_node("a/b/d")
    assert not Patterns.of("/a").match_node("b/a")
    assert [Patterns.of(p).match_node("") for p in ("/", "*", "a")] == [True, True, False]
    assert not Patterns.of("/").match_node("a")
