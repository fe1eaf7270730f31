"""Version 3: data types, fill values, and the form and names of extensions."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import crc32c
import numpy as np
import pytest

import omnizarr as oz
from omnizarr import registry
from omnizarr.chunk_grids import Grid, RegularAxis
from omnizarr.codecs import Configured
from omnizarr.data_types import DataType
from tests.conformance.register import NAMES
from tests.conformance.v3_metadata import array_doc, open_doc, put, regular, stored


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove names registered in a test."""
    monkeypatch.setattr(registry, "_table", dict(registry._table))


def fill_of(data_type: str, fill: Any) -> np.ndarray[Any, Any]:
    """Return the only element of an array without chunks, for a fill value in metadata."""
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    doc = {"data_type": data_type, "fill_value": fill, "codecs": codecs}
    return open_doc(**doc, shape=[1], chunk_grid=regular(1))[...]


def bits(values: np.ndarray[Any, Any]) -> str:
    """Return the bits as big-endian hexadecimal."""
    return values.astype(values.dtype.newbyteorder(">"), copy=False).tobytes().hex()


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


REFUSED_FILLS = [
    *(("bool", value) for value in (2, 0.0, "true", [True])),
    *(("int8", value) for value in (128, -129, 1.0, 1e2, "1", True, [1])),
    ("uint8", -1),
    ("uint64", 2**64),
    *(("float32", value) for value in ("nan", "+Infinity", "inf", "-inf", "1.5", True, [1])),
    *(("float32", value) for value in ("0x7fc0000", "0x07fc00000", "0x", "7fc00000", "0x7fc0000g")),
    ("float64", "0x7fc00000"),
    *(("complex64", value) for value in (1, [1], [1, 2, 3], "NaN", [1, "nan"], {"re": 1, "im": 2})),
    *(
        ("r16", value)
        for value in ([256, 0], [1], [1, 2, 3], [-1, 0], [1.0, 0], [True, 0], 0, None)
    ),
    ("r16", [0] * 16),
]


@pytest.mark.shows("V3-37", "V3-38", "V3-40", "V3-41", "V3-42", "V3-43", "V3-95", "V3-98")
@pytest.mark.parametrize(("data_type", "fill"), REFUSED_FILLS)
def test_a_fill_value_that_does_not_fit_its_type_is_refused(data_type: str, fill: Any) -> None:
    with pytest.raises(oz.InvalidMetadata, match="fill_value") as caught:
        fill_of(data_type, fill)
    assert data_type in str(caught.value)


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


@pytest.mark.shows("V3-37", "V3-38", "V3-39", "V3-40", "V3-41", "V3-42", "V3-43", "V3-45", "V3-95")
@pytest.mark.parametrize(
    ("data_type", "fill", "expected"),
    [
        ("bool", True, "01"),
        ("bool", False, "00"),
        ("int8", -128, "80"),
        ("int8", 127, "7f"),
        ("uint64", 18446744073709551615, "ffffffffffffffff"),
        ("int64", -9223372036854775808, "8000000000000000"),
        ("float32", 16777217, bits(np.float32([16777216]))),
        ("float32", 2**60 + 2**36 + 1, bits(np.float32([2**60 + 2**37]))),  # rounded once
        ("float16", 2049, bits(np.float16([2048]))),
        ("float16", 2051, bits(np.float16([2052]))),
        ("float32", 0.1, "3dcccccd"),
        ("float32", 1e39, "7f800000"),
        ("float64", -0.0, "8000000000000000"),
        ("float16", "NaN", "7e00"),
        ("float32", "NaN", "7fc00000"),
        ("float64", "NaN", "7ff8000000000000"),
        ("float16", "Infinity", "7c00"),
        ("float32", "-Infinity", "ff800000"),
        ("float32", "0x7fc00000", "7fc00000"),
        ("float32", "0x7fc00001", "7fc00001"),
        ("float32", "0x7f800001", "7f800001"),
        ("float32", "0xFFC00000", "ffc00000"),
        ("float16", "0x3c00", "3c00"),
        ("float64", "0x7ff800000000abcd", "7ff800000000abcd"),
        ("complex64", [1, 2], "3f80000040000000"),
        ("complex64", ["-Infinity", "NaN"], "ff8000007fc00000"),
        ("complex128", ["0x7ff8000000000001", 1.5], "7ff80000000000013ff8000000000000"),
        ("r16", [1, 255], "01ff"),
    ],
)
def test_absent_chunks_read_as_the_exact_bits_of_the_fill_value(
    data_type: str, fill: Any, expected: str
) -> None:
    assert bits(fill_of(data_type, fill)) == expected


@pytest.mark.shows("V3-40", "V3-41", "V3-42", "V3-43", "V3-95")
@pytest.mark.parametrize(
    ("dtype", "pattern", "written"),
    [
        ("f4", "7fc00000", "NaN"),
        ("f4", "7fc00001", "0x7fc00001"),
        ("f4", "7f800001", "0x7f800001"),
        ("f4", "ffc00000", "0xffc00000"),
        ("f2", "7e01", "0x7e01"),
        ("f8", "7ff8000000000001", "0x7ff8000000000001"),
        ("f4", "7f800000", "Infinity"),
        ("f8", "fff0000000000000", "-Infinity"),
        ("c8", "3f8000007fc00001", [1.0, "0x7fc00001"]),
        ("V2", "01ff", [1, 255]),
    ],
)
def test_a_fill_value_is_written_so_that_no_bit_is_lost(
    dtype: str, pattern: str, written: Any
) -> None:
    given = np.frombuffer(bytes.fromhex(pattern), np.dtype(dtype).newbyteorder(">"))
    value = given.astype(dtype) if dtype[0] not in "fc" else _native(given)
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(1,), dtype=dtype, fill_value=value.reshape(()))
    assert stored(store)["fill_value"] == written
    assert bits(oz.open(store)[...]) == pattern


def _native(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the same bits in the machine's order; a cast would quieten signalling NaNs."""
    return values.byteswap().view(values.dtype.newbyteorder())


@pytest.mark.shows("V3-44")
def test_a_type_without_a_rule_for_its_fill_value_is_refused(own_registry: None) -> None:
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


@pytest.mark.shows("V3-47")
@pytest.mark.parametrize(
    ("value", "member"),
    [
        ({}, "name"),
        ({"configuration": {}}, "name"),
        ({"name": 1}, "name"),
        ({"name": ""}, "name"),
        ({"name": "gzip", "configuration": []}, "configuration"),
        ({"name": "gzip", "configuration": None}, "configuration"),
        ({"name": "gzip", "configuration": "x"}, "configuration"),
        ({"name": "gzip", "must_understand": "no"}, "must_understand"),
        ({"name": "gzip", "options": {}}, "options"),
    ],
)
def test_an_extension_object_has_a_name_and_a_configuration(
    value: dict[str, Any], member: str
) -> None:
    for field, given in (
        ("codecs[1]", {"codecs": [{"name": "bytes"}, value]}),
        ("chunk_grid", {"chunk_grid": value}),
        ("data_type", {"data_type": value}),
        ("chunk_key_encoding", {"chunk_key_encoding": value}),
        ("storage_transformers[0]", {"storage_transformers": [value]}),
    ):
        with pytest.raises(oz.InvalidMetadata, match=re.escape(f"{field}.{member}")):
            open_doc(**given)


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


@pytest.mark.shows("V3-51")
@pytest.mark.parametrize("field", ["data_type", "chunk_grid", "chunk_key_encoding"])
@pytest.mark.parametrize("known", [True, False])
def test_extensions_that_change_the_meaning_cannot_be_ignored(field: str, known: bool) -> None:
    value = array_doc()[field]
    value = {"name": value} if isinstance(value, str) else dict(value)
    if not known:
        value = {"name": "foo"}
    with pytest.raises(oz.InvalidMetadata, match=f"{field}.must_understand"):
        open_doc(**{field: {**value, "must_understand": False}})


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
def test_names_for_new_registrations_follow_the_pattern(own_registry: None) -> None:
    for name in ("zstd2", "numcodecs.adler33", "a-b_c.d", "x"):
        oz.register("codec", name, Own)
    for name in ("urn:example:datetime", "https://example.org/codec/1.0"):
        oz.register("data_type", name, Own)
    for name in ("foo/bar", "foo:bar", "Foo", "1x", "", "_x", "a b", "ä"):
        with pytest.raises(oz.InvalidArgument, match=re.escape(repr(name))):
            oz.register("codec", name, Own)
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


@dataclass(frozen=True, slots=True)
class Own(Configured):
    """A codec that adds a number to every byte."""

    add: int = 1

    name: ClassVar[str] = "test.own"
    kind: ClassVar[str] = "bytes->bytes"

    def encoded_size(self, size: int) -> int:
        return size

    def encode(self, data: Any) -> bytes:
        return bytes((b + self.add) % 256 for b in bytes(data))

    def decode(self, data: Any, size: int | None) -> bytes:
        return bytes((b - self.add) % 256 for b in bytes(data))


@dataclass(frozen=True)
class Reversed:
    """A key encoding from the last axis to the first."""

    mark: str = "k"

    def key(self, coords: Any) -> str:
        return self.mark + "_".join(map(str, reversed(coords)))

    def other_keys(self, coords: Any) -> tuple[str, ...]:
        return ()

    def coords(self, key: str, rank: int) -> tuple[int, ...] | None:
        parts = key.removeprefix(self.mark).split("_")
        good = key.startswith(self.mark) and len(parts) == rank
        return tuple(int(p) for p in reversed(parts)) if good else None


class Below:
    """A transformer that keeps chunks under another prefix."""

    read_only = False

    def __init__(self, store: Any, prefix: str, named: Any, *_: Any) -> None:
        self.store, self.prefix, self.folder = store, prefix, named.configuration["folder"]

    def _down(self, key: str) -> str:
        return f"{self.prefix}{self.folder}/{key.removeprefix(self.prefix)}"

    def get(self, key: str, range: Any = None) -> bytes | None:
        value: bytes | None = self.store.get(self._down(key), range)
        return value

    def set(self, key: str, value: Any) -> None:
        self.store.set(self._down(key), value)

    def erase(self, key: str) -> None:
        self.store.erase(self._down(key))

    def list(self) -> Iterator[str]:
        start = f"{self.prefix}{self.folder}/"
        return (self.prefix + k[len(start) :] for k in self.store.list() if k.startswith(start))


def halves(named: Any, shape: tuple[int, ...]) -> Grid:
    """Return a grid of two chunks along every axis."""
    return Grid(tuple(RegularAxis(n, max(1, -(-n // 2))) for n in shape))


def tenths(named: Any) -> DataType:
    """Return a type of bytes that count tenths, with fill values as text."""
    return DataType(
        named,
        np.dtype("u1"),
        lambda json, _: round(10 * float(json)),
        lambda value, _: str(int(value[()]) / 10),
    )


@pytest.mark.shows("V3-55", "V3-88", "ZEP-16")
def test_users_can_add_extensions_at_all_five_points(own_registry: None) -> None:
    oz.register("codec", "test.own", Own)
    oz.register("data_type", "test.tenths", tenths)
    oz.register("chunk_grid", "test.halves", halves)
    oz.register("chunk_key_encoding", "test.reversed", Reversed)
    oz.register("storage_transformer", "test.below", Below)
    doc = array_doc(
        shape=[4, 3],
        data_type="test.tenths",
        fill_value="1.5",
        chunk_grid={"name": "test.halves"},
        chunk_key_encoding={"name": "test.reversed", "configuration": {"mark": "z"}},
        codecs=["bytes", {"name": "test.own", "configuration": {"add": 2}}],
        storage_transformers=[{"name": "test.below", "configuration": {"folder": "deep"}}],
    )
    store = put(doc)
    array = oz.open(store, mode="r+")
    assert array[...].tolist() == 4 * [3 * [15]]
    values = np.arange(12, dtype="u1").reshape(4, 3)
    values[:2, :2] = 15
    array[...] = values
    assert sorted(store) == ["deep/z0_1", "deep/z1_0", "deep/z1_1", "zarr.json"]
    assert list(store["deep/z0_1"]) == [6 + 2, 7 + 2, 9 + 2, 10 + 2]
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
