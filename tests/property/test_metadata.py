"""Invalid metadata of every format is an error of this library and nothing else."""

from __future__ import annotations

import copy
import json
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr
from omnizarr import InvalidMetadata, OmnizarrError, OmnizarrWarning
from tests.property.strategies import FORMATS, Described, described, json_values

KEYS = {
    1: ("meta", "attrs"),
    2: (".zarray", ".zattrs"),
    "3-draft": ("zarr.json", "meta/array.json"),
    3: ("zarr.json",),
}
HUGE = (2**31, 2**53 + 1, 2**62, 2**63, 2**64, 10**30, 10**400, -1, -(2**63), 1e308)


def paths_in(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to everything inside a JSON value."""
    inside: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [p for k, v in inside for p in ((*here, k), *paths_in(v, (*here, k)))]


def nested(depth: int) -> Any:
    """Return a deeply nested list."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@st.composite
def mutations(draw: st.DrawFn, document: Any) -> Any:
    """Draw metadata with one member dropped, replaced, added or repeated."""
    changed = copy.deepcopy(document)
    found = paths_in(changed)
    if not found:
        return draw(json_values())
    place = draw(st.sampled_from(found))
    parent = changed
    for step in place[:-1]:
        parent = parent[step]
    last = place[-1]
    what = draw(st.sampled_from(("drop", "replace", "replace", "huge", "deep", "add", "wrap")))
    if what == "drop":
        del parent[last]
    elif what == "replace":
        parent[last] = draw(json_values())
    elif what == "huge":
        parent[last] = draw(st.sampled_from(HUGE))
    elif what == "deep":
        parent[last] = nested(draw(st.sampled_from((3, 20, 63, 200))))
    elif what == "wrap":
        parent[last] = draw(st.sampled_from(([parent[last]], {"name": parent[last]})))
    elif isinstance(parent, dict):
        parent[draw(st.text(max_size=3))] = draw(json_values())
    else:
        parent.append(draw(json_values()))
    return changed


@st.composite
def broken(draw: st.DrawFn, array: Described) -> dict[str, bytes]:
    """Draw the metadata of an array, partly mutated."""
    store: dict[str, bytes] = {}
    array.create(store, attributes={"a": [1, {"b": None}]})
    key = draw(st.sampled_from([k for k in KEYS[array.format] if k in store]))
    document = json.loads(store[key])
    for _ in range(draw(st.integers(1, 2))):
        document = draw(mutations(document))
    return {**store, key: json.dumps(document).encode()}


def outcome(call: Any) -> Any:
    """Return the result of a call, or the error of this library that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OmnizarrWarning)
        try:
            return call()
        except OmnizarrError as e:
            error = e
    assert str(error)
    return error


def check(store: dict[str, bytes]) -> None:
    """Check that opening and validating agree and raise only errors of this library."""
    before = dict(store)
    opened = outcome(lambda: omnizarr.open(store))
    problems = outcome(lambda: omnizarr.validate(store))
    assert store == before
    if isinstance(problems, OmnizarrError):
        assert isinstance(opened, OmnizarrError)
        return
    errors = [p for p in problems if p.level == "error"]
    if errors:
        assert isinstance(opened, OmnizarrError), errors
    if isinstance(opened, InvalidMetadata):
        assert errors, opened


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_changed_metadata_opens_or_is_refused_and_validate_agrees(
    format: int | str, data: st.DataObject
) -> None:
    array = data.draw(described(format, most=4))
    check(data.draw(broken(array)))


@pytest.mark.parametrize("format", FORMATS)
@given(text=st.binary(max_size=40) | json_values().map(lambda value: json.dumps(value).encode()))
def test_anything_instead_of_metadata_opens_or_is_refused(format: int | str, text: bytes) -> None:
    store: dict[str, bytes] = {}
    omnizarr.create_array(store, shape=2, dtype="i4", zarr_format=format)
    for key in KEYS[format]:
        check({**store, key: text})


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_truncated_metadata_is_refused(format: int | str, data: st.DataObject) -> None:
    store: dict[str, bytes] = {}
    omnizarr.create_array(store, shape=2, dtype="i4", zarr_format=format)
    key = data.draw(st.sampled_from([k for k in KEYS[format] if k in store]))
    whole = store[key].strip()
    store[key] = whole[: data.draw(st.integers(0, len(whole) - 1))]
    check(store)
    with pytest.raises(InvalidMetadata, match=key.replace(".", r"\.")):
        omnizarr.open(store)


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_metadata_is_validated_without_its_store(format: int | str, data: st.DataObject) -> None:
    store: dict[str, bytes] = {}
    data.draw(described(format, most=4)).create(store)
    key = data.draw(st.sampled_from([k for k in KEYS[format] if k in store and k != "attrs"]))
    document = json.loads(store[key])
    assert [p for p in omnizarr.validate(document) if p.level == "error"] == []
    problems = outcome(lambda: omnizarr.validate(data.draw(mutations(document))))
    assert isinstance(problems, (list, OmnizarrError))
