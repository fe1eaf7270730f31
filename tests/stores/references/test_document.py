"""JSON references of versions 0 and 1, compared with fsspec; malformed ones are refused."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import jinja2.sandbox
import pytest
from fsspec.implementations.reference import ReferenceFileSystem
from hypothesis import given
from hypothesis import strategies as st

from omnizarr.errors import StoreError
from omnizarr.stores.base import Range
from omnizarr.stores.references.document import MAX_TEXT, Document, ReferenceTarget

# The example of the specification, without generators and templates with variables.
EXAMPLE: dict[str, Any] = {
    "version": 1,
    "templates": {"u": "server.domain/path"},
    "refs": {
        "key0": "data",
        "key1": ["http://target_url", 10000, 100],
        "key2": ["http://{{u}}", 10000, 100],
        "key4": ["http://target_url"],
    },
}


def _read(document: Any) -> Document:
    return Document.read(json.dumps(document).encode(), "refs.json")


def _plain(document: Document) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in document.keys:
        value = document.find(key)
        if isinstance(value, ReferenceTarget):
            span = value.span
            found[key] = [value.url] if span is None else [value.url, span.start, span.length]
        else:
            found[key] = value
    return found


def test_the_example_of_the_specification_is_read_as_it_says_and_as_fsspec_reads_it() -> None:
    found = _plain(_read(EXAMPLE))
    assert found["key0"] == b"data"
    theirs = ReferenceFileSystem(
        fo=copy.deepcopy(EXAMPLE), simple_templates=False, remote_protocol="memory"
    )
    assert found == {**theirs.references, "key0": b"data"}


@given(st.dictionaries(st.sampled_from(["a/0", "b", "c/.zattrs"]), st.binary(max_size=40)))
def test_values_are_text_base64_or_json(values: dict[str, bytes]) -> None:
    refs = {k: "base64:" + base64.b64encode(v).decode() for k, v in values.items()}
    for document in (refs, {"version": 1, "refs": refs}):
        assert _plain(_read(document)) == values


def test_an_object_is_a_document_and_text_is_utf8() -> None:
    found = _read({"a/.zarray": {"shape": [2], "fill_value": float("nan")}, "t": "Grüße"})
    value = found.find("a/.zarray")
    assert isinstance(value, bytes)
    assert json.loads(value)["shape"] == [2]
    assert found.find("t") == "Grüße".encode()


def test_version_0_has_no_templates() -> None:
    found = _read({"k": ["{{u}}", 1, 2]})
    assert found.find("k") == ReferenceTarget("{{u}}", Range(1, 2))


def test_keys_are_listed_by_level() -> None:
    found = _read({"a/0": "x", "a/b/1": "y", "c": "z"})
    assert [*found.keys_below("a/")] == ["a/0", "a/b/1"]
    assert found.list_dir("") == (["c"], ["a/"])
    assert found.list_dir("a/") == (["a/0"], ["a/b/"])


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "has no references"),
        ({"version": 2, "refs": {}}, "version 2"),
        ({"version": True}, "version True"),
        ({"version": 1, "refs": []}, "must be objects"),
        ({"version": 1, "templates": {"u": 3}}, "must be text"),
        ({"version": 1, "gen": [{}]}, "generators of keys"),
        ({"../a": "x"}, "no key"),
        ({"/a": "x"}, "no key"),
        ({"a": 3}, "must be text"),
        ({"a": None}, "must be text"),
        ({"a": []}, "must be \\[url\\]"),
        ({"a": [None, 0, 1]}, "must be \\[url\\]"),
        ({"a": ["", 0, 1]}, "must be \\[url\\]"),
        ({"a": ["u", 0]}, "must be \\[url\\]"),
        ({"a": ["u", -1, 1]}, "must be \\[url\\]"),
        ({"a": ["u", 0, 1.5]}, "must be \\[url\\]"),
        ({"a": ["u", True, 1]}, "must be \\[url\\]"),
        ({"a": ["u", 0, 2**63]}, "must be \\[url\\]"),
    ],
)
def test_malformed_references_are_refused(document: Any, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        _read(document)


def _using(url: str) -> dict[str, Any]:
    templates = {"u": "server/path", "f": "{{c}}"}
    return {"version": 1, "templates": templates, "refs": {"k": [url]}}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"k": "base64:???"}, "base64"),
        (_using("{{v}}"), "'v' is not the name"),
        (_using("{{f}}"), "'f' is not the name"),
        (_using("{{f(c='text')}}"), "is not the name"),
        (_using("{{u|upper}}"), "is not the name"),
        (_using("{{u.__class__}}"), "is not the name"),
        (_using("{{open('/etc/passwd')}}"), "is not the name"),
        (_using("{{}}"), "is not the name"),
        (_using("x" * MAX_TEXT + "{{u}}"), "more than"),
    ],
)
def test_a_value_that_cannot_be_made_is_an_error_when_it_is_needed(
    document: Any, reason: str
) -> None:
    read = _read(document)
    with pytest.raises(StoreError, match=reason):
        read.find("k")


@given(st.lists(st.sampled_from(["{{u}}", "{{ u }}", "/plain"]), min_size=1))
def test_templates_are_those_of_jinja(parts: list[str]) -> None:
    found = _read(_using("".join(parts))).find("k")
    assert isinstance(found, ReferenceTarget)
    environment = jinja2.sandbox.SandboxedEnvironment()
    assert found.url == environment.from_string("".join(parts)).render(u="server/path")


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "version": st.sampled_from([None, 0, 1, "1"]),
            "templates": json_values,
            "refs": json_values,
            "k": json_values,
        },
    )
)
def test_any_json_is_read_or_refused(document: Any) -> None:
    try:
        found = _read(document)
        for key in found.keys:
            found.find(key)
    except StoreError:
        return
