"""The keys by which models of new arrays are kept."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnizarr.concurrency.cache import typed_key
from omnizarr.hierarchy.options import plain_key

EQUAL_IN_PYTHON = [1, 1.0, True, 0, 0.0, -0.0, False, [1], (1,), [1.0], {"a": 1}, {"a": True}]
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))
PLAIN = st.recursive(
    LEAVES | st.sampled_from(EQUAL_IN_PYTHON),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3),
        st.lists(inside, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inside, max_size=3),
    ),
    max_leaves=8,
)


@given(PLAIN, PLAIN)
def test_both_kinds_of_keys_tell_plain_values_apart(a: Any, b: Any) -> None:
    same = typed_key(a) == typed_key(b)
    assert (plain_key(a) == plain_key(b)) == same
    shared, apart = [a, a], [a, copy.deepcopy(a)]
    assert plain_key(shared) == plain_key(apart) is not None


def test_a_value_that_is_not_plain_data_has_no_plain_key() -> None:
    inside_itself: list[Any] = []
    inside_itself.append(inside_itself)
    for value in (object(), "x" * 5000, inside_itself, np.int32(1), np.dtype("i4"), int, len, 1j):
        assert plain_key([value]) is None
