"""ZEP 1: detecting versions, upgrading, modularity, and the goals of version 3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import stores
from omnizarr.testing import RecordingStore
from tests.conformance.v3_metadata import array_doc, group_doc, put, regular, stored

Store = dict[str, bytes]
VALUES = np.arange(24, dtype="i4").reshape(4, 6)


# Versions


@pytest.mark.shows("ZEP-01")
@pytest.mark.parametrize(
    ("zarr_format", "key", "stated"),
    [
        (1, "meta", 1),
        (2, ".zarray", 2),
        ("3-draft", "zarr.json", "https://purl.org/zarr/spec/core/3.0"),
        (3, "zarr.json", 3),
    ],
)
def test_versions_are_distinguished_by_their_keys(zarr_format: Any, key: str, stated: Any) -> None:
    store: Store = {}
    oz.create_array(store, data=VALUES, zarr_format=zarr_format)
    assert json.loads(store[key])["zarr_format"] == stated
    found = oz.open(store)
    assert found.zarr_format == zarr_format
    assert np.array_equal(found[...], VALUES)


@pytest.mark.shows("ZEP-02")
def test_metadata_is_never_read_by_the_rules_of_another_version() -> None:
    documents: dict[Any, bytes] = {}
    for version, key in ((1, "meta"), (2, ".zarray"), (3, "zarr.json")):
        store: Store = {}
        oz.create_array(store, shape=(2,), dtype="i4", zarr_format=version)
        documents[version] = store[key]
    keys = {1: "meta", 2: ".zarray", 3: "zarr.json"}
    for version, text in documents.items():
        for other, key in keys.items():
            if other == version:
                continue
            extra = {"attrs": b"{}"} if other == 1 else {}
            with pytest.raises(oz.InvalidMetadata, match=f"looks like zarr {version}") as caught:
                oz.open({key: text, **extra})
            assert key in str(caught.value)
    draft: Store = {}
    oz.create_group(draft, zarr_format="3-draft")
    with pytest.raises(oz.InvalidMetadata, match="draft"):
        oz.open({".zgroup": draft["zarr.json"]})


# Upgrading


def upgraded(**options: Any) -> tuple[Store, dict[str, Any]]:
    """Return an upgraded version 2 array and its new metadata."""
    store: Store = {}
    oz.create_array(store, zarr_format=2, **options)
    chunks = {key: value for key, value in store.items() if not key.startswith(".z")}
    oz.convert(store, zarr_format=3, in_place=True)
    assert {key: store[key] for key in chunks} == chunks
    return store, stored(store)


@pytest.mark.shows("ZEP-04")
@pytest.mark.parametrize(
    ("dtype", "name", "endian"),
    [
        ("<i4", "int32", "little"),
        (">i4", "int32", "big"),
        (">f8", "float64", "big"),
        ("|u1", "uint8", None),
        ("|b1", "bool", None),
        ("<c8", "complex64", "little"),
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_upgrade_maps_type_order_keys_and_fill_value(
    dtype: str, name: str, endian: str | None, order: str
) -> None:
    data = (VALUES % 2).astype(dtype)
    gzip = {"id": "gzip", "level": 7}
    store, doc = upgraded(data=data, chunks=(3, 4), order=order, compressors=gzip, fill_value=None)
    assert doc["data_type"] == name
    codecs: list[dict[str, Any]] = [{"name": "bytes"}, {"name": "gzip"}]
    codecs[1]["configuration"] = {"level": 7}
    if endian is not None:
        codecs[0]["configuration"] = {"endian": endian}
    if order == "F":
        codecs.insert(0, {"name": "transpose", "configuration": {"order": [1, 0]}})
    assert doc["codecs"] == codecs
    assert doc["chunk_grid"] == regular(3, 4)
    assert doc["chunk_key_encoding"] == {"name": "v2", "configuration": {"separator": "."}}
    zero = {"bool": False, "complex64": [0.0, 0.0], "float64": 0.0}.get(name, 0)
    assert doc["fill_value"] == zero
    assert np.array_equal(oz.open(store, zarr_format=3)[...], data)


@pytest.mark.shows("ZEP-05")
@pytest.mark.parametrize(
    ("dtype", "number", "word", "typesize"),
    [
        ("<f8", -1, "shuffle", 8),
        ("|u1", -1, "bitshuffle", 1),
        ("<i4", 0, "noshuffle", 4),
        ("<i4", 1, "shuffle", 4),
        ("<i2", 2, "bitshuffle", 2),
    ],
)
def test_an_upgrade_states_shuffle_and_typesize_of_blosc(
    dtype: str, number: int, word: str, typesize: int
) -> None:
    blosc = {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": number, "blocksize": 0}
    data = VALUES.astype(dtype)
    store, doc = upgraded(data=data, compressors=blosc)
    (found,) = (c["configuration"] for c in doc["codecs"] if c["name"] == "blosc")
    assert found == {
        "cname": "zstd",
        "clevel": 3,
        "shuffle": word,
        "typesize": typesize,
        "blocksize": 0,
    }
    assert np.array_equal(oz.open(store, zarr_format=3)[...], data)


# Modularity and extensions


@pytest.mark.shows("ZEP-07")
def test_a_codec_of_a_package_that_is_not_installed_names_it() -> None:
    script = """
import sys
sys.modules["numcodecs.zfpy"] = sys.modules["zfpy"] = None
import numcodecs.registry
numcodecs.registry.codec_registry.pop("zfpy", None)
import json, omnizarr as oz
doc = json.loads(sys.argv[1])
array = oz.open({"zarr.json": json.dumps(doc).encode(), "c/0": b"1234"})
print(array.shape)
try:
    array[0]
except oz.MissingPackage as e:
    print(e)
print(oz.create_array(data=[1, 2, 3])[...].sum())
"""
    doc = json.dumps(array_doc(codecs=[{"name": "numcodecs.zfpy"}]))
    out = subprocess.check_output([sys.executable, "-c", script, doc], text=True).splitlines()
    assert out[0] == "(6,)"
    assert "zfpy" in out[1]
    assert "pip install" in out[1]
    assert out[2] == "6"


PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from omnizarr.codecs import Configured
from omnizarr.data_types import DataType
from omnizarr.storage import MemoryStore

@dataclass(frozen=True, slots=True)
class Invert(Configured):
    name: ClassVar[str] = "plugin.invert"
    kind: ClassVar[str] = "bytes->bytes"
    def encoded_size(self, size): return size
    def encode(self, data): return bytes(255 - b for b in bytes(data))
    def decode(self, data, size): return bytes(255 - b for b in bytes(data))

def letters(named):
    return DataType(named, np.dtype("S1"), lambda j, d: j.encode(), lambda v, d: v[()].decode(),
                    zero=b"-")

SHELF = MemoryStore()
def shelf(url, *, read_only=False): return SHELF
"""
ENTRY_POINTS = """
[omnizarr.codec]
plugin.invert = plugin_for_test:Invert
[omnizarr.data_type]
plugin.letters = plugin_for_test:letters
[omnizarr.store]
shelf = plugin_for_test:shelf
"""


@pytest.mark.shows("ZEP-08", "ZEP-11")
def test_another_package_adds_a_codec_a_type_and_a_store_by_entry_points(tmp_path: Path) -> None:
    (tmp_path / "plugin_for_test.py").write_text(PLUGIN)
    info = tmp_path / "plugin_for_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-for-test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    script = """
import omnizarr as oz
a = oz.create_array("shelf://x", shape=(3,), dtype={"name": "plugin.letters"},
                    codecs=["bytes", "plugin.invert"])
a[:2] = [b"a", b"b"]
values = oz.open("shelf://x").store.values
print(oz.open("shelf://x")[...].tolist(), sorted(values), values["c/0"].hex())
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    out = subprocess.check_output([sys.executable, "-c", script], env=environment, text=True)
    assert out.strip() == "[b'a', b'b', b'-'] ['c/0', 'zarr.json'] 9e9dd2"


# Speed on slow stores


@pytest.fixture
def many() -> Store:
    store = {**put(group_doc()), **put(group_doc(), "g")}
    for i in range(7):
        store |= put(array_doc(), f"g/a{i}", c0=b"\1\2\3\4", c1=b"\1\2\3\4")
    return store


@pytest.mark.shows("ZEP-13")
def test_opening_by_path_is_one_request_and_finding_members_two(many: Store) -> None:
    counted = RecordingStore(oz.storage.MemoryStore(many))
    oz.open(counted, path="g/a3", zarr_format=3)
    oz.open(counted, path="g/a3")
    group = oz.open(counted, path="g", zarr_format=3)
    group["a3"]
    assert len(counted.calls) == 4
    counted.calls.clear()
    assert len(dict(group.members())) == 7
    assert [(call.operation, len(call.keys)) for call in counted.calls] == [
        ("list_dir", 1),
        ("get_many", 7),
    ]


@pytest.mark.shows("ZEP-14")
def test_listing_one_level_of_an_array_shows_its_metadata_and_one_prefix() -> None:
    store: Store = {}
    oz.create_array(store, path="a", data=np.arange(1, 101, dtype="u1"), chunks=(1,))
    assert len(store) == 102
    assert stores.list_dir(oz.storage.MemoryStore(store), "a/") == (["a/zarr.json"], ["a/c/"])


@pytest.mark.shows("ZEP-18")
def test_an_array_of_a_billion_chunks_opens_without_listing() -> None:
    counted = RecordingStore(oz.storage.MemoryStore())
    array = oz.create_array(counted, shape=(10**9,), chunks=(1,), dtype="u1", codecs=["bytes"])
    array[123_456_789] = 7
    counted.calls.clear()
    again = oz.open(counted, zarr_format=3)
    assert again.nchunks == 10**9
    assert again[123_456_789] == 7
    assert [len(call.keys) for call in counted.calls] == [1, 1]


# Conventions


@pytest.mark.shows("ZEP-19")
@pytest.mark.parametrize(
    "attributes",
    [
        {"_ARRAY_DIMENSIONS": ["y", "x"]},
        {"_FillValue": 3, "scale_factor": 0.1, "add_offset": 5},
        {"shape": [1], "dtype": "f8", "zarr_format": 2, "fill_value": 9, "must_understand": True},
        {"ome": {"version": "0.5", "multiscales": "nonsense"}},
    ],
)
@pytest.mark.parametrize("names", [None, ["y", "x"], ["a", None]])
def test_attributes_are_stored_and_not_interpreted(
    attributes: dict[str, Any], names: list[str | None] | None
) -> None:
    store: Store = {}
    options: dict[str, Any] = {"dimension_names": names, "chunks": (2, 3)}
    plain = oz.create_array(shape=(4, 6), dtype="i4", **options)
    array = oz.create_array(store, shape=(4, 6), dtype="i4", attributes=attributes, **options)
    array[...] = VALUES
    array.attrs["more"] = 1
    assert stored(store)["attributes"] == {**attributes, "more": 1}
    found = oz.open(store)
    assert found.attrs.asdict() == {**attributes, "more": 1}
    assert found.metadata.with_(attributes={}) == plain.metadata.with_(attributes={})
    assert found.dimension_names == (None if names is None else tuple(names))
    assert np.array_equal(found[...], VALUES)
