"""Problems that `validate` finds in readable and in consolidated metadata."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.conformance.draft_metadata import hierarchy, with_array
from tests.conformance.small_stores import v1_store, v2_store
from tests.conformance.v3_metadata import array_doc, group_doc, put, regular

Store = dict[str, bytes]
URI = "https://purl.org/zarr/spec/extensions/data-types"
SHARD = {
    "chunk_shape": [2],
    "codecs": [{"name": "transpose", "configuration": {"order": "F"}}, "bytes"],
    "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
}
GRID = "chunk_grid.configuration"
TRANSPOSED = [{"name": "transpose", "configuration": {"order": "C"}}, {"name": "bytes"}]
TIMES = {"extension": f"{URI}/datetime/1.0", "type": "<M8[s]", "fallback": "int64"}
ENCODING = {"type": "json", "metadata_key_suffix": ".json", "more": 1}
UNKNOWN = {"extension": "no-uri", "type": "x", "must_understand": False}
ODD: dict[str, tuple[Store, str]] = {
    "v1 field with a shape": (v1_store(dtype=[["a", "<i4", [2]]]), "dtype"),
    "v1 nested field": (v1_store(dtype=[["a", [["b", "<i4"]]]]), "dtype"),
    "v1 float as bits": (v1_store(dtype="<f4", fill_value="0x7fc00000"), "fill_value"),
    "v1 compression": (v1_store(compression=None), "compression"),
    "v1 boolean": (v1_store(fill_value=True), "fill_value"),
    "v2 float as bits": (v2_store(dtype="<f8", fill_value="0x7ff8000000000001"), "fill_value"),
    "v2 complex as bits": (v2_store(dtype="<c8", fill_value=["0x7fc00000", 0]), "fill_value"),
    "v2 boolean": (v2_store(fill_value=True), "fill_value"),
    "v2 structure": (v2_store(dtype=[["a", "<i4"]], fill_value=0), "fill_value"),
    "v2 byte string": (v2_store(dtype="|S3", fill_value=0), "fill_value"),
    "v2 group": ({".zgroup": b"{}"}, "zarr_format"),
    "v2 chunks of length 0": (v2_store(chunks=[0]), "chunks"),
    "v2 shape": (v2_store(dtype=[["a", "<i4", 2]], fill_value=None), "dtype"),
    "v2 inner shape": (v2_store(dtype=[["b", [["a", "<i4", 2]]]], fill_value=None), "dtype"),
    "draft encoding": (hierarchy(metadata_encoding=ENCODING), "metadata_encoding.more"),
    "draft suffix": (
        hierarchy(metadata_encoding={"type": "json", "metadata_key_suffix": ".txt"}),
        "metadata_encoding.metadata_key_suffix",
    ),
    "draft extension of the entry": (hierarchy(extensions=[UNKNOWN]), "extensions[0].extension"),
    "draft extension": (with_array(extensions=[UNKNOWN]), "extensions[0].extension"),
    "draft member of a type": (with_array(data_type={**TIMES, "more": 1}), "data_type.more"),
    "draft type": (
        with_array(data_type={"extension": "no-uri", "type": "x", "fallback": "int32"}),
        "data_type.extension",
    ),
    "v3 consolidated metadata": (
        put(group_doc(consolidated_metadata=None)),
        "consolidated_metadata",
    ),
    "v3 chunks of length 0": (put(array_doc(chunk_grid=regular(0))), f"{GRID}.chunk_shape"),
    "v3 bare NaN in attributes": (put(array_doc(attributes={"a": math.nan})), "attributes"),
    "v3 text codec of bytes": (
        put(array_doc(data_type="bytes", fill_value="", codecs=["vlen-utf8"])),
        "codecs",
    ),
    "v3 bytes codec of text": (
        put(array_doc(data_type="string", fill_value="", codecs=["vlen-bytes"])),
        "codecs",
    ),
    "v3 names": (put(array_doc(dimension_names=None)), "dimension_names"),
    "v3 raw fill": (put(array_doc(data_type="r16", fill_value="AAE=")), "fill_value"),
    "v3 order": (put(array_doc(codecs=TRANSPOSED)), "codecs"),
    "v3 order in a shard": (
        put(array_doc(codecs=[{"name": "sharding_indexed", "configuration": SHARD}])),
        "codecs",
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_a_readable_violation_of_the_specification_is_a_warning(case: str) -> None:
    """C6: these were not reported."""
    store, field = ODD[case]
    reported = [(p.field, p.level) for p in oz.validate(store)]
    assert (field, "warning") in reported
    assert {level for _, level in reported} == {"warning"}
    with pytest.warns(oz.OmnizarrWarning) as warned:
        node: Any = oz.open(store, path="a" if "meta/a.array.json" in store else None)
    assert any(f": {field}: " in str(w.message) for w in warned)
    if isinstance(node, oz.Array):
        assert node[...].shape == node.shape


EMPTY = {"extension": "", "type": "x", "must_understand": False}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("extensions", [EMPTY]),
        ("storage_transformers", [EMPTY]),
        ("data_type", {**EMPTY, "fallback": "int32"}),
    ],
)
def test_an_extension_of_the_draft_has_a_uri(field: str, value: Any) -> None:
    (problem, *_) = oz.validate(with_array(**{field: value}))
    assert problem.field.startswith(field)
    assert "expected a URI, got the string ''" in problem.message


def test_an_extension_that_cannot_be_ignored_is_named() -> None:
    grid = {"name": "hexagonal", "must_understand": False}
    (problem,) = oz.validate(array_doc(chunk_grid=grid))
    assert "'hexagonal' cannot be ignored" in problem.message


def consolidated_store(version: int) -> Store:
    """Return a group with arrays `a` and `g/b`, whose metadata are consolidated."""
    store: Store = {}
    root = oz.create_group(store, zarr_format=version, attributes={"root": [1]})
    root.create_array("a", data=np.arange(3.0), fill_value=float("nan"))
    root.create_array("g/b", data=np.arange(3))
    oz.consolidate_metadata(store)
    return store


def apart(store: Store, path: str, version: int, attributes: dict[str, Any] | None = None) -> None:
    """Store a group as libraries do that leave consolidated metadata as they are."""
    if version == 2:
        store[f"{path}/.zgroup"] = b'{"zarr_format": 2}'
        store[f"{path}/.zattrs"] = json.dumps(attributes or {}).encode()
    else:
        store |= put(group_doc(attributes=attributes or {}), path)


def edit_copies(store: Store, version: int, path: str) -> None:
    """Give a copy of the array `a` another path."""
    key, names = (".zmetadata", "/.zarray") if version == 2 else ("zarr.json", "")
    document = json.loads(store[key])
    copies = document if version == 2 else document["consolidated_metadata"]
    copies["metadata"][path + names] = copies["metadata"]["a" + names]
    store[key] = json.dumps(document).encode()


STALE: dict[str, tuple[Any, list[tuple[str, str]]]] = {  # what others do, what `validate` says
    "none": (lambda store, v: None, []),
    "new": (lambda store, v: apart(store, "n", v), [("n", "missing")]),
    "new below": (
        lambda store, v: [apart(store, path, v) for path in ("n", "n/m")],
        [("n", "missing"), ("n/m", "missing")],
    ),
    "gone": (
        lambda store, v: [store.pop(k) for k in [*store] if k.startswith("g/")],
        [("g", "no such"), ("g/b", "no such")],
    ),
    "changed": (lambda store, v: apart(store, "g", v, {"x": 1}), [("g", "differs")]),
    "nowhere": (lambda store, v: edit_copies(store, v, "x/y"), [("x/y", "no such")]),
    "outside": (lambda store, v: edit_copies(store, v, "../x"), [("../x", "can have")]),
    "absolute": (lambda store, v: edit_copies(store, v, "/x"), [("/x", "can have")]),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("case", STALE)
def test_stale_consolidated_metadata_is_reported(case: str, version: int) -> None:
    """C6: nothing was said."""
    change, expected = STALE[case]
    store = consolidated_store(version)
    change(store, version)
    reported = [(p.field, p.message, p.level) for p in oz.validate(store)]
    assert len(reported) == len(expected)
    for (field, message, level), (path, words) in zip(reported, expected, strict=True):
        assert level == "error"
        assert field.endswith(f"metadata[{path!r}]")
        assert words in message
    assert {"a"} <= set(oz.open(store, use_consolidated=True)) <= {"a", "g", "n", "x"}
    oz.open(store, mode="r+")["z"] = np.arange(3)
    assert oz.open(store, use_consolidated=True)["z"][2] == 2
    oz.consolidate_metadata(store)
    assert oz.validate(store) == []
