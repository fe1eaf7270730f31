"""What `validate` finds in documents that can be read, and in consolidated metadata."""

from __future__ import annotations

from typing import Any

import pytest

import omnizarr as oz
from tests.conformance.draft import hierarchy, with_array
from tests.conformance.small_stores import v1_store, v2_store
from tests.conformance.v3_docs import array_doc, put

Store = dict[str, bytes]
URI = "https://purl.org/zarr/spec/extensions/data-types"
SHARD = {
    "chunk_shape": [2],
    "codecs": [{"name": "transpose", "configuration": {"order": "F"}}, "bytes"],
    "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
}
TRANSPOSED = [{"name": "transpose", "configuration": {"order": "C"}}, {"name": "bytes"}]
TIMES = {"extension": f"{URI}/datetime/1.0", "type": "<M8[s]", "fallback": "int64"}
ENCODING = {"type": "json", "metadata_key_suffix": ".json", "more": 1}
UNKNOWN = {"extension": "no-uri", "type": "x", "must_understand": False}
ODD: dict[str, tuple[Store, str]] = {
    "v1 field with a shape": (v1_store(dtype=[["a", "<i4", [2]]]), "dtype"),
    "v1 nested field": (v1_store(dtype=[["a", [["b", "<i4"]]]]), "dtype"),
    "v1 float as bits": (v1_store(dtype="<f4", fill_value="0x7fc00000"), "fill_value"),
    "v1 boolean": (v1_store(fill_value=True), "fill_value"),
    "v2 float as bits": (v2_store(dtype="<f8", fill_value="0x7ff8000000000001"), "fill_value"),
    "v2 complex as bits": (v2_store(dtype="<c8", fill_value=["0x7fc00000", 0]), "fill_value"),
    "v2 boolean": (v2_store(fill_value=True), "fill_value"),
    "v2 shape": (v2_store(dtype=[["a", "<i4", 2]], fill_value=None), "dtype"),
    "v2 inner shape": (v2_store(dtype=[["b", [["a", "<i4", 2]]]], fill_value=None), "dtype"),
    "draft encoding": (hierarchy(metadata_encoding=ENCODING), "metadata_encoding.more"),
    "draft extension of the entry": (hierarchy(extensions=[UNKNOWN]), "extensions[0].extension"),
    "draft extension": (with_array(extensions=[UNKNOWN]), "extensions[0].extension"),
    "draft member of a type": (with_array(data_type={**TIMES, "more": 1}), "data_type.more"),
    "draft type": (
        with_array(data_type={"extension": "no-uri", "type": "x", "fallback": "int32"}),
        "data_type.extension",
    ),
    "v3 names": (put(array_doc(dimension_names=None)), "dimension_names"),
    "v3 raw fill": (put(array_doc(data_type="r16", fill_value="AAE=")), "fill_value"),
    "v3 order": (put(array_doc(codecs=TRANSPOSED)), "codecs[0].configuration.order"),
    "v3 order in a shard": (
        put(array_doc(codecs=[{"name": "sharding_indexed", "configuration": SHARD}])),
        "codecs[0].configuration.codecs[0].configuration.order",
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_what_can_be_read_though_the_text_has_it_otherwise_is_a_warning(case: str) -> None:
    """C6: nothing was said of these."""
    store, field = ODD[case]
    told = [(p.field, p.level) for p in oz.validate(store)]
    assert (field, "warning") in told
    assert {level for _, level in told} == {"warning"}
    with pytest.warns(oz.OmnizarrWarning) as warned:
        node: Any = oz.open(store, path="a" if "meta/a.array.json" in store else None)
    assert any(f": {field}: " in str(w.message) for w in warned)
    if isinstance(node, oz.Array):
        assert node[...].shape == node.shape
