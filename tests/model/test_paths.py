"""Paths of nodes: one spelling for each node, and no way out of the hierarchy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnizarr.errors import InvalidName
from omnizarr.model import paths

SEGMENTS = st.text(st.characters(exclude_characters="/\0\\"), min_size=1, max_size=4).filter(
    lambda s: s not in (".", "..")
)
PATHS = st.lists(SEGMENTS, max_size=4).map("/".join)


@given(PATHS, st.integers(0, 2), st.integers(1, 3))
def test_superfluous_slashes_make_no_difference(path: str, outer: int, inner: int) -> None:
    spelt = "/" * outer + path.replace("/", "/" * inner) + "/" * outer
    assert paths.normalize(spelt) == path
    assert paths.normalize(path) == path


@given(PATHS, PATHS)
def test_a_joined_path_has_its_parts_in_order(parent: str, child: str) -> None:
    joined = paths.join(parent, child)
    assert paths.normalize(f"{parent}/{child}") == joined
    assert joined.startswith(paths.prefix(parent)) or not child
    assert paths.name(joined) == paths.name(child or parent)


@given(PATHS)
def test_ancestors_are_all_nodes_above_from_the_root_down(path: str) -> None:
    above = list(paths.ancestors(path))
    assert [path.count("/") for path in above[1:]] == list(range(len(above) - 1))
    assert above == ([""] if path else []) + [
        path[:i] for i, letter in enumerate(path) if letter == "/"
    ]
    assert all(path.startswith(paths.prefix(a)) for a in above)


@pytest.mark.parametrize("path", [".", "..", "a/..", "../a", "a/./b", "a\0b"])
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(InvalidName):
        paths.normalize(path)


@given(PATHS)
def test_a_backslash_is_a_slash_where_names_cannot_have_it(path: str) -> None:
    assert paths.forward(path.replace("/", "\\")) == path
    assert paths.show(path) == f"/{path}"


def test_names_of_this_package_are_told_from_others() -> None:
    for name in (".__omnizarr_staged__", "c0.__omnizarr_partial__12_ab", "a/.__omnizarr_lock__x"):
        assert paths.is_ours(name)
    for name in ("omnizarr", "a.__omnizarr_b", ".__omnizarr", "__omnizarr_lock__"):
        assert not paths.is_ours(name)
