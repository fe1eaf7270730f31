"""Models: frozen, compared by value, and the same for all formats."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnizarr.errors import InvalidMetadata
from omnizarr.model import FillValue, Named
from omnizarr.model.node import check_members
from tests.property.strategies import json_values

OBJECTS = st.dictionaries(st.text(max_size=3), json_values(), max_size=4)


def containers(value: Any) -> list[Any]:
    """Return all lists and dictionaries inside a JSON value."""
    inside = value.values() if isinstance(value, dict) else value
    found = [value] if isinstance(value, (dict, list)) else []
    return found + [c for v in inside for c in containers(v)] if found else []


@given(OBJECTS)
def test_a_configuration_is_a_copy_that_nobody_can_change(configuration: dict[str, Any]) -> None:
    before = copy.deepcopy(configuration)
    named = Named("x", configuration)
    for container in containers(configuration):
        container.clear()
    assert named.configuration == before
    assert json.loads(json.dumps(named.configuration)) == before
    for container in containers(named.configuration):
        with pytest.raises(TypeError):
            container.clear()


@given(json_values())
def test_a_fill_value_cannot_be_changed(value: Any) -> None:
    fill = FillValue(copy.deepcopy(value), "v3")
    assert fill == FillValue(value, "v3")
    for container in containers(fill.json):
        with pytest.raises(TypeError):
            container.clear()


@given(st.sets(st.sampled_from("abc")), st.sets(st.sampled_from("abc")), st.sets(st.just("d")))
def test_every_missing_and_unknown_member_is_listed(
    given: set[str], required: set[str], optional: set[str]
) -> None:
    named = Named("x", dict.fromkeys(given, 1))
    wrong = [*sorted(required - given), *sorted(given - required - optional)]
    if not wrong:
        check_members(named, "codec", required=required, optional=optional)
        return
    with pytest.raises(InvalidMetadata, match="codec 'x'") as error:
        check_members(named, "codec", required=required, optional=optional)
    assert [p.field for p in error.value.problems] == [f"configuration.{m}" for m in wrong]
