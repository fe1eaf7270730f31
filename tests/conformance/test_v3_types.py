"""Version 3: data types, fill values, and the form and names of extensions."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from typing import Any

import crc32c
import numpy as np
import pytest

import omnizarr as oz
from omnizarr import registry, storage
from omnizarr.chunk_grids import Grid, RegularAxis
from omnizarr.data_types import DataType
from tests.conformance.register import NAMES
from tests.conformance.v3_metadata import array_doc, open_doc, put, regular, stored
from tests.test_extending import Marked, NoBase, tenths

# Data types and fill values


@pytest.mark.shows("V3-35", "V3-36", "V3-104")
@pytest.mark.parametrize("endian", [None, "little", "big"])
@pytest.mark.parametrize(("name", "data"), [("r8", "ff"), ("r16", "01ff"), ("r24", "010203")])
def test_raw_items_keep_their_bytes_in_either_byte_order(
    name: str, data: str, endian: str | None
) -> None:
    size = len(data) // 2
    codecs = [{"name": "bytes", "configuration": {} if endian is None else {"endian": endian}}]
    fill = [9] * size
    doc = array_doc(data_type=name, fill_value=fill, codecs=codecs)
    store = put(doc, c0=bytes.fromhex(data) * 4)
    array = oz.open(store, mode="r+")
    assert array.dtype == np.dtype(f"V{size}")
    assert array[0].tobytes().hex() == data
    assert array[5].tobytes() == bytes(fill)
    array[4:6] = array[0:2]
    assert store["c/1"] == bytes.fromhex(data) * 2 + bytes(fill) * 2


# GDAL writes null for maps without nodata (tests/peers/test_fill_values.py), zarrita 0 or 1.
@pytest.mark.shows("V3-37", "V3-38", "V3-39", "V3-43", "V3-98")
@pytest.mark.parametrize(
    ("data_type", "fill", "written"),
    [
        *((name, None, 0) for name in ("uint8", "int16", "int64", "int4")),
        *((name, None, 0.0) for name in ("float32", "float64", "float16", "bfloat16")),
        *((name, None, [0.0, 0.0]) for name in ("complex64", "complex128", "complex_bfloat16")),
        *(("bool", fill, bool(fill)) for fill in (None, 0, 1)),
        ("string", None, ""),
    ],
)
def test_fill_values_that_others_write_are_read_with_a_warning_and_not_written(
    data_type: str, fill: Any, written: Any
) -> None:
    codec = {"name": "bytes", "configuration": {"endian": "little"}}
    codecs = ["vlen-utf8"] if data_type == "string" else [codec]
    store = put(array_doc(data_type=data_type, fill_value=fill, codecs=codecs))
    said = "a value, got null, as GDAL" if fill is None else f"true or false, got {fill}, as zarr"
    with pytest.warns(oz.OmnizarrWarning, match=f"fill_value: expected {said}"):
        array = oz.open(store, mode="r+")
    assert array[...].tolist() == np.full(6, fill or 0, array.dtype).tolist() or written == ""
    [problem] = oz.validate(store)
    assert (problem.field, problem.level) == ("fill_value", "warning")
    with pytest.warns(oz.OmnizarrWarning, match="fill_value"):
        array.attrs["a"] = 1
    found = stored(store)["fill_value"]
    assert (found, type(found)) == (written, type(written))
    assert oz.validate(store) == []


@pytest.mark.shows("V3-44")
def test_a_type_without_a_rule_for_its_fill_value_is_refused(own_names: None) -> None:
    def no_rule(*_: Any) -> Any:
        raise oz.InvalidMetadata("type 'unruly' has no fill value in JSON")

    oz.register("data_type", "unruly", lambda named: DataType(named, np.dtype("u1")))
    oz.register(
        "data_type", "ruled-out", lambda named: DataType(named, np.dtype("u1"), no_rule, no_rule)
    )
    store: dict[str, bytes] = {}
    with pytest.raises(TypeError, match="decode"):
        oz.create_array(store, shape=(1,), dtype={"name": "unruly"})
    with pytest.raises(oz.InvalidMetadata, match="no fill value"):
        oz.create_array(store, shape=(1,), dtype={"name": "ruled-out"})
    assert store == {}


# Extension form and names


@pytest.mark.shows("V3-46", "V3-49", "V3-88", "ZEP-10", "ZEP-17")
@pytest.mark.parametrize("permission", [{}, {"must_understand": True}])
@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("codecs", "codecs[1]"),
        ("storage_transformers", "storage_transformers[0]"),
        ("data_type", "data_type"),
        ("chunk_grid", "chunk_grid"),
        ("chunk_key_encoding", "chunk_key_encoding"),
    ],
)
def test_an_unknown_extension_is_an_error_with_its_name_and_position(
    field: str, place: str, permission: dict[str, bool]
) -> None:
    foo = {"name": "foo", **permission}
    given: Any = {"codecs": [{"name": "bytes"}, foo], "storage_transformers": [foo]}.get(field, foo)
    store = put(array_doc(**{field: given}), c0=b"1234")
    array = oz.open(store, mode="r+")
    assert array.shape == (6,)
    before = dict(store)
    for act in (lambda: array[0], lambda: array.__setitem__(0, 1)):
        with pytest.raises(oz.UnknownExtension, match="'foo'") as caught:
            act()
        assert place in str(caught.value)
        assert caught.value.name == "foo"
    assert store == before
    reported = [p for p in oz.validate(store) if "'foo'" in p.message]
    assert [p.field.partition("[")[0] for p in reported] == [field]


@pytest.mark.shows("V3-47", "V3-48")
def test_the_short_form_is_an_object_with_only_a_name() -> None:
    long = {"name": "gzip", "configuration": {"level": 1}}
    packed = gzip.compress(b"\1\2\3\4")
    assert oz.open(put(array_doc(codecs=["bytes", long]), c0=packed))[1] == 2
    chunk = b"\1\2\3\4" + crc32c.crc32c(b"\1\2\3\4").to_bytes(4, "little")
    arrays = [
        oz.open(put(array_doc(codecs=codecs), c0=chunk))
        for codecs in (
            ["bytes", "crc32c"],
            [{"name": "bytes"}, {"name": "crc32c"}],
            [{"name": "bytes", "configuration": {}}, {"name": "crc32c", "configuration": {}}],
        )
    ]
    assert [a[...].tolist() for a in arrays] == 3 * [[1, 2, 3, 4, 0, 0]]
    assert arrays[0].metadata == arrays[1].metadata == arrays[2].metadata
    short = open_doc(chunk_key_encoding="default", data_type={"name": "uint8"})
    assert short.chunk_key((1,)) == "c/1"
    assert short.dtype == np.uint8


@pytest.mark.shows("V3-50", "ZEP-10")
@pytest.mark.parametrize(
    "given",
    [
        {"codecs": ["bytes", {"name": "foo", "must_understand": False}]},
        {"storage_transformers": [{"name": "foo", "must_understand": False}]},
    ],
)
def test_an_ignorable_extension_is_skipped_with_a_warning_and_prevents_writing(
    given: dict[str, Any],
) -> None:
    store = put(array_doc(**given), c0=b"\1\2\3\4", c1=b"\5\6\7\7")
    with pytest.warns(oz.OmnizarrWarning, match="'foo'"):
        array = oz.open(store, mode="r+")
    assert array[...].tolist() == [1, 2, 3, 4, 5, 6]
    before = dict(store)
    with pytest.raises(oz.StoreError, match="'foo'"):
        array[0] = 9
    with pytest.raises(oz.StoreError, match="'foo'"):
        array.append(np.array([1], "u1"))
    with pytest.raises(oz.StoreError, match="'foo'"):
        array.resize(5, outside="erase")
    assert store == before


@pytest.mark.shows("V3-52", "V3-51")
@pytest.mark.parametrize("dtype", ["u1", "f4", str, bytes, "M8[ns]"])
def test_default_metadata_has_only_names_of_3_0(dtype: Any) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(4, 4), dtype=dtype, order="F")
    doc = stored(store)
    assert "must_understand" not in store["zarr.json"].decode()
    for extension in (*doc["codecs"], doc["chunk_grid"], doc["chunk_key_encoding"]):
        assert set(extension) in ({"name"}, {"name", "configuration"})


@pytest.mark.shows("V3-53", "V3-100")
def test_names_for_new_registrations_follow_the_pattern(own_names: None) -> None:
    for name in ("zstd2", "numcodecs.adler33", "a-b_c.d", "x"):
        oz.register("codec", name, NoBase)
    for name in ("urn:example:datetime", "https://example.org/codec/1.0"):
        oz.register("data_type", name, NoBase)
    for name in ("foo/bar", "foo:bar", "Foo", "1x", "", "_x", "a b", "ä"):
        with pytest.raises(oz.InvalidArgument, match=re.escape(repr(name))):
            oz.register("codec", name, NoBase)
        assert registry.find("codec", name) is None
    for name in ("urn:other:thing", "x", "Foo/Bar"):
        assert open_doc(codecs=["bytes", name]).codecs[1].name == name


ZARR_PYTHON = "the name that zarr-python writes; zarr-extensions has no other for it"
ZARRS = "the name that zarrs gave it before it had the prefix"
# Names that are not registered, each with the reason why a document may still have it.
UNREGISTERED = {
    "codec": {
        "vlen-array": "the filter of numcodecs, as zarr-python names those of its kind",
        **dict.fromkeys(("optional", "vlen", "vlen_v2"), ZARRS),
    },
    "data_type": {
        "optional": ZARRS,
        "null_terminated_bytes": ZARR_PYTHON,
        "raw_bytes": ZARR_PYTHON,
        "variable_length_bytes": ZARR_PYTHON,
        "float8_e4m3fn": "a type of ml_dtypes, named by the same rule as the registered ones",
    },
}
# How names start that belong to a package or a writer, each with the reason why it is known.
OWNED = {
    "numcodecs.": "named in zarr-extensions (numcodecs.bitround, …) and written by zarr-python",
    "imagecodecs_": "the ids under which the package imagecodecs writes",
    "zarrs.": "the names under which zarrs wrote what is registered now, or has a description",
}
# Names that only other formats or earlier texts have; nothing of version 3 is written with them.
ONLY_READ = {
    "codec": {"endian": "bytes", "filter-on-bytes": None},
    "data_type": {"object": None, "numpy.longdouble": None, "numpy.clongdouble": None},
    "chunk_key_encoding": {"v3-draft": "default"},
}


@pytest.mark.shows("V3-54")
def test_every_name_that_can_be_written_is_registered_or_has_a_reason() -> None:
    script = (
        "import json, omnizarr, omnizarr.storage_transformers; from omnizarr import registry;"
        f"print(json.dumps({{k: registry.names(k) for k in {list(NAMES)}}}))"
    )
    known = json.loads(subprocess.check_output([sys.executable, "-c", script]))
    for kind, names in known.items():
        written = {n for n in names if "://" not in n} - ONLY_READ.get(kind, {}).keys()
        unregistered = {n for n in written - {*NAMES[kind]} if not n.startswith(tuple(OWNED))}
        assert unregistered == UNREGISTERED.get(kind, {}).keys(), kind
    pattern = re.compile(r"^[a-z][a-z0-9-_.]+$")
    names = {name for names in known.values() for name in names if ":" not in name}
    assert {name for name in names if not pattern.match(name)} == {"numcodecs.*"}


def halves(named: Any, shape: tuple[int, ...]) -> Grid:
    """Return a grid of two chunks along every axis."""
    return Grid(tuple(RegularAxis(n, max(1, -(-n // 2))) for n in shape))


@pytest.mark.shows("V3-55", "V3-88", "ZEP-16")
def test_users_can_add_extensions_at_all_five_points(own_names: None) -> None:
    def below(store: Any, prefix: str, named: Any, *_: Any) -> storage.PrefixStore:
        return storage.PrefixStore(store, named.configuration["folder"])

    oz.register("codec", "test.own", NoBase)
    oz.register("data_type", "test.tenths", tenths)
    oz.register("chunk_grid", "test.halves", halves)
    oz.register("chunk_key_encoding", "test.marked", Marked)
    oz.register("storage_transformer", "test.below", below)
    doc = array_doc(
        shape=[4, 3],
        data_type="test.tenths",
        fill_value=1.5,
        chunk_grid={"name": "test.halves"},
        chunk_key_encoding={"name": "test.marked", "configuration": {"mark": "z"}},
        codecs=["bytes", {"name": "test.own", "configuration": {"mask": 2}}],
        storage_transformers=[{"name": "test.below", "configuration": {"folder": "deep"}}],
    )
    store = put(doc)
    array = oz.open(store, mode="r+")
    assert array[...].tolist() == 4 * [3 * [15]]
    values = np.arange(12, dtype="u1").reshape(4, 3)
    values[:2, :2] = 15
    array[...] = values
    assert sorted(store) == ["deep/z0_1", "deep/z1_0", "deep/z1_1", "zarr.json"]
    assert list(store["deep/z1_0"]) == [6 ^ 2, 7 ^ 2, 9 ^ 2, 10 ^ 2]
    array.attrs["a"] = 1
    assert {**stored(store), "attributes": {}} == {
        **doc,
        "codecs": [{"name": "bytes"}, doc["codecs"][1]],
    }
    assert oz.open(store)[...].tolist() == values.tolist()
    assert oz.open(store).nchunks_initialized == 3


@pytest.mark.shows("V3-56", "ZEP-12")
def test_the_printed_extension_example_works() -> None:
    zstd = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
    doc = array_doc(
        data_type="string",
        chunk_key_encoding={"name": "default", "configuration": {"separator": "."}},
        codecs=[{"name": "vlen-utf8"}, zstd],
        chunk_grid=regular(32),
        shape=[128],
        dimension_names=["x"],
        fill_value="",
    )
    store = put(doc)
    array = oz.open(store, mode="r+")
    values = [f"{i} äΩ" for i in range(128)]
    array[...] = np.array(values, object)
    assert sorted(store) == ["c.0", "c.1", "c.2", "c.3", "zarr.json"]
    again = oz.open(store)
    assert again[...].tolist() == values
    assert again.chunks == (32,)
    assert again.dimension_names == ("x",)
