"""Fields: everything wrong with an object is recorded, and nothing wrong leaves the reader."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnizarr.errors import InvalidMetadata, Problem
from omnizarr.model import Named
from omnizarr.model.fields import MAX_RANK, Fields, named
from tests.property.strategies import json_values


def fields(**values: Any) -> Fields:
    return Fields("key", values, [])


@given(json_values())
def test_a_list_of_integers_is_read_or_recorded(value: Any) -> None:
    inspected = fields(shape=value)
    found = inspected.integers("shape")
    good = (
        isinstance(value, list)
        and len(value) <= MAX_RANK
        and all(type(n) is int and 0 <= n < 2**63 for n in value)
        and math.prod(value) < 2**63
    )
    assert (inspected.problems == []) == good
    assert not good or found == tuple(value)
    assert all(p.key == "key" and p.field.startswith("shape") for p in inspected.problems)


@given(json_values(), st.booleans())
def test_an_extension_is_a_name_or_an_object_with_one(value: Any, wrap: bool) -> None:
    stated = {"name": "x", "configuration": value} if wrap else value
    inspected = fields(codec=stated)
    found = named(inspected, "codec", stated)
    if inspected.problems:
        assert all(p.field.startswith("codec") for p in inspected.problems)
    else:
        assert isinstance(found, Named)
        assert found.name == (stated if isinstance(stated, str) else stated["name"])


@given(st.lists(st.sampled_from(("a", "b", "c", "d")), unique=True))
def test_done_raises_with_all_errors_and_no_warnings(wrong: list[str]) -> None:
    inspected = fields()
    inspected.warn("z", "odd")
    for name in wrong:
        inspected.error(name, f"{name} is wrong")
    if not wrong:
        inspected.done("not valid")
        return
    with pytest.raises(InvalidMetadata, match="not valid") as error:
        inspected.done("not valid")
    assert error.value.problems == tuple(Problem("key", n, f"{n} is wrong") for n in wrong)
    assert all(f"{n} is wrong" in str(error.value) for n in wrong)


@given(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef")))
def test_each_missing_field_is_recorded_once(there: set[str], needed: set[str]) -> None:
    inspected = fields(**dict.fromkeys(there, None))
    inspected.require(*sorted(needed))
    assert [p.field for p in inspected.problems] == sorted(needed - there)


@given(json_values())
def test_a_choice_is_one_of_the_constants(value: Any) -> None:
    inspected = fields(order=value)
    found = inspected.choice("order", ("C", "F"))
    assert found in ("C", "F")
    assert (inspected.problems == []) == (value in ("C", "F") and isinstance(value, str))
