"""Large JSON objects are read and changed member by member, from their places in the text."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnizarr import _json
from omnizarr._json import LazyObject
from omnizarr.errors import InvalidMetadata

COMPILED = _json._compiled
needs_compiled = pytest.mark.skipif(COMPILED is None, reason="no compiler when it was installed")
NAMES = st.text(max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e300, 1e300) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=5)
LAYOUTS = st.sampled_from([{}, {"indent": 2}, {"indent": 4}, {"separators": (",", ":")}])


def text_of(value: Any, layout: dict[str, Any], escape: bool) -> bytes:
    return json.dumps(value, ensure_ascii=escape, **layout).encode("utf-8", "surrogatepass")


@pytest.fixture(params=[pytest.param("C", marks=needs_compiled), "Python"])
def scanner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "Python":
        monkeypatch.setattr(_json, "_compiled", None)


def read(data: bytes, names: tuple[str, ...] = (), **options: Any) -> LazyObject | None:
    try:
        return LazyObject.read(data, "doc", names, **options)
    except InvalidMetadata:
        return None


@given(OBJECTS, LAYOUTS, st.booleans())
def test_members_are_those_of_the_object(value: Any, layout: Any, escape: bool) -> None:
    data = b" \n" + text_of(value, layout, escape) + b"\t"
    found = LazyObject.read(data, "doc")
    assert dict(found) == value
    assert json.loads(found.text) == value
    inner = LazyObject.read(text_of({"x": 1, "a": value}, layout, escape), "doc", ("a",)).inner
    assert inner is not None
    assert dict(inner) == value
    other = text_of({"a": 1, "b": value}, layout, escape)
    assert LazyObject.read(other, "doc", ("a",)).inner is None


@needs_compiled
@given(st.data(), OBJECTS, LAYOUTS, st.booleans())
def test_both_scanners_agree_on_any_text(data: Any, value: Any, layout: Any, nan: bool) -> None:
    text = bytearray(text_of({"a": value, "b": [value]}, layout, escape=False))
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + 1] = data.draw(
            st.sampled_from([b"", b'"', b"{", b"}", b"[", b",", b":", b"\\", b"0", b"-", b"\n",
                             b"\xff", b"\xc3\xa4", b"e1", b".5", b"NaN", b"Infinity", b"\x00"])
        )  # fmt: skip
    assert COMPILED is not None
    found = COMPILED(bytes(text), ("a",), nan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_json, "_compiled", None)
        other = _json.find_members(bytes(text), ("a",), nan)
    problem = ""
    try:
        _json.load_object(bytes(text), "doc", allow_nan=nan)
    except InvalidMetadata as e:
        problem = str(e)
    assert (other is None) == bool(problem)
    # A name twice inside of a value is noticed when that is read.
    assert found == other or "occurs twice" in problem


@pytest.mark.usefixtures("scanner")
@pytest.mark.parametrize("depth", [126, 127, 128, 129])
@pytest.mark.parametrize("inside", ["", "1"])
def test_depth_is_limited_as_for_whole_documents(depth: int, inside: str) -> None:
    data = ('{"a": ' + "[" * (depth - 1) + inside + "]" * (depth - 1) + "}").encode()
    valid = depth < 128 or (depth == 128 and not inside)
    assert (read(data) is not None) == valid
    assert (read(b'{"b": 1, "a"' + data[4:]) is not None) == valid


@pytest.mark.usefixtures("scanner")
@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{",
     b'{"a"}', b'{"a": }', b'{"a": 1,}', b'{"a": 1} x', b'{"a": 01}', b'{"a": 1.}',
     b'{"a": 1, "a": 2}', b'\xef\xbb\xbf{}', b'{"\xff": 1}', b'{"a": "\n"}', b'{"a": "\\x"}',
     b'{"a": "\\u12g4"}', b'{"a": tru}', b'{"a": NaN}', b'{a: 1}', b'{"a": [1 2]}', b'{"a": [1,]}',
     b'{"a": {"b"}}', b'{"a": [}', b'{"a": -}', b'{"a": 1e}', b'{"a": \xed\xa0\x80}'],
)  # fmt: skip
def test_invalid_text_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidMetadata):
        LazyObject.read(data, "doc")


@pytest.mark.usefixtures("scanner")
def test_bare_nan_is_read_where_it_is_allowed() -> None:
    data = b'{"a": NaN, "b": [-Infinity, Infinity]}'
    found = LazyObject.read(data, "doc", allow_nan=True)
    assert math.isnan(found["a"])
    assert found["b"] == [-math.inf, math.inf]


CHANGES = st.dictionaries(NAMES, st.none() | VALUES.map(lambda v: {"v": v}), max_size=4)


@given(OBJECTS, CHANGES, st.booleans(), LAYOUTS)
@example({}, {"a": {"v": 1}}, False, {"indent": 2})
@example({"a": 1}, {"a": None}, True, {"indent": 2})
def test_a_change_leaves_all_other_text_as_it_is(
    value: Any, changes: Any, ordered: bool, layout: Any
) -> None:
    value = dict(sorted(value.items())) if ordered else value
    whole = {"first": [1], "inside": value, "last": {}}
    data = text_of(whole, layout, escape=False)
    inner = LazyObject.read(data, "doc", ("inside",)).inner
    assert inner is not None
    texts = {n: None if v is None else _json.dumps(v, indent=2) for n, v in changes.items()}
    changed = inner.changed(texts, depth=2, indent=2, ordered=ordered)
    expected = {**value, **changes}
    expected = {n: v for n, v in expected.items() if n not in changes or v is not None}
    assert json.loads(changed) == {**whole, "inside": expected}
    if ordered:
        assert [*json.loads(changed)["inside"]] == sorted(expected)
    if layout == {"indent": 2}:
        assert changed == text_of(json.loads(changed), layout, escape=False)
