"""Codecs, data types and keys of other packages (D4); test_tutorials runs extending.md."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import registry
from omnizarr.chunk_key_encodings import ChunkKeyEncoding
from omnizarr.codecs import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec, Spec
from omnizarr.data_types import DataType
from tests.conformance.v3_metadata import array_doc, group_doc, put

VALUES = np.arange(24, dtype="u2").reshape(4, 6)
pytestmark = pytest.mark.usefixtures("own_names")


@dataclass(frozen=True)
class Add(ArrayArrayCodec):
    """A codec that adds a number."""

    name = "example.add"
    number: int = 1

    def encode(self, array: Any, spec: Spec) -> Any:
        return array + array.dtype.type(self.number)

    def decode(self, array: Any, spec: Spec) -> Any:
        return array - array.dtype.type(self.number)


@dataclass(frozen=True)
class Text(ArrayBytesCodec):
    """A codec that stores numbers as text."""

    name = "example.text"
    between: str = " "

    def encode(self, array: Any, spec: Spec) -> bytes:
        return self.between.join(map(str, array.reshape(-1).tolist())).encode()

    def decode(self, data: Any, spec: Spec) -> Any:
        words = bytes(data).decode().split(self.between)
        return np.array(words, spec.data_type.dtype).reshape(spec.shape)


@dataclass(frozen=True)
class Reverse(BytesBytesCodec):
    """A codec that reverses the bytes."""

    name = "example.reverse"
    steps: tuple[int, ...] = (-1,)
    options: dict[str, int] = field(default_factory=lambda: {"a": 1})
    unset: int | None = None

    def encode(self, data: Any) -> bytes:
        return bytes(data)[:: self.steps[0]]

    def decode(self, data: Any, size: int | None) -> bytes:
        return bytes(data)[::-1]


@dataclass(frozen=True)
class NoBase:
    """A dataclass with the methods of a codec but no base class."""

    name = "example.bare"
    kind = "bytes->bytes"
    mask: int = 3

    def encoded_size(self, size: int) -> int:
        return size

    def encode(self, data: Any) -> bytes:
        return bytes(b ^ self.mask for b in bytes(data))

    def decode(self, data: Any, size: int | None) -> bytes:
        return self.encode(data)


CODECS: dict[Any, dict[str, Any]] = {  # with their default configurations
    Add: {"number": 1},
    Text: {"between": " "},
    Reverse: {"steps": [-1], "options": {"a": 1}},
    NoBase: {"mask": 3},
}


def option(kind: Any) -> str:
    return {"array->array": "filters", "array->bytes": "serializer"}.get(kind.kind, "compressors")


@pytest.mark.parametrize(("kind", "defaults"), CODECS.items())
@pytest.mark.parametrize("given", ["object", "name", "json", "codecs"])
def test_a_user_defined_codec_works_in_every_notation(
    kind: Any, defaults: dict[str, Any], given: str
) -> None:
    """D4: the base classes work, and the defaults are written to zarr.json."""
    oz.register("codec", kind.name, kind)
    codec: Any = {"object": kind(), "name": kind.name}.get(given, {"name": kind.name})
    options: dict[str, Any] = {option(kind): codec}
    if given == "codecs":
        order = {"filters": 0, "serializer": 1, "compressors": 2}
        chain = sorted(
            [(order[option(kind)], codec), *([(1, "bytes")] * (kind is not Text))],
            key=lambda pair: pair[0],
        )
        options = {"codecs": [c for _, c in chain]}
    store: dict[str, bytes] = {}
    oz.create_array(store, data=VALUES, chunks=(2, 3), **options)
    assert np.array_equal(oz.open(store)[...], VALUES)
    stated = json.loads(store["zarr.json"])["codecs"]
    assert {"name": kind.name, "configuration": defaults} in stated


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (3, "not a dataclass; inherit from"),
        (lambda named: None, "not a dataclass"),
        (type("Plain", (), {"kind": "bytes->bytes"}), "not a dataclass"),
        (
            dataclass(frozen=True)(type("Wrong", (NoBase,), {"kind": "bytes_bytes"})),
            "kind 'bytes_bytes'; did",
        ),
        (
            dataclass(frozen=True)(type("Without", (), {"name": "x"})),
            "kind None; known: array->array",
        ),
        (
            dataclass(frozen=True)(type("Half", (), {"name": "x", "kind": "bytes->bytes"})),
            "'encoded_size'",
        ),
        (
            dataclass(frozen=True)(type("Unnamed", (Add,), {"name": None})),
            r"add the line name = 'test\.own'",
        ),
    ],
)
def test_an_invalid_codec_is_refused_on_registration(target: Any, said: str) -> None:
    """D4: also one of an unknown kind."""
    with pytest.raises(oz.WrongType, match=said):
        oz.register("codec", "test.own", target)
    assert registry.find("codec", "test.own") is None


def test_an_unknown_kind_of_extension_is_refused() -> None:
    with pytest.raises(oz.InvalidArgument, match="did you mean 'codec'"):
        oz.register("codecs", "test.own", Add)  # type: ignore[arg-type]  # what is tested
    for kind in ("data_type", "chunk_grid", "chunk_key_encoding", "storage_transformer", "store"):
        with pytest.raises(oz.WrongType, match="cannot be"):
            oz.register(kind, "test.own", 3)  # type: ignore[arg-type]  # one of them


@pytest.mark.parametrize(
    ("kind", "name", "target"),
    [
        ("codec", "zstd", Reverse),
        ("codec", "numcodecs.zlib", Reverse),
        ("data_type", "int8", lambda named: None),
        ("chunk_key_encoding", "default", Reverse),
        ("chunk_grid", "regular", lambda named, shape: None),
        ("store", "s3", lambda url: None),
    ],
)
def test_a_known_name_is_replaced_only_on_request(kind: Any, name: str, target: Any) -> None:
    """D4: names of this package, in every registry."""
    before = registry.find(kind, name)
    with pytest.raises(oz.InvalidArgument, match="replace=True replaces it"):
        oz.register(kind, name, target)
    with pytest.raises(oz.InvalidArgument, match="replace=True replaces it"):
        oz.register(kind, "test.own", target, name)
    assert registry.find(kind, name) is before
    assert registry.find(kind, "test.own") is None
    oz.register(kind, name, target, replace=True)
    assert registry.find(kind, name) is target
    oz.register(kind, name, before, replace=True)


def test_a_notebook_cell_can_register_again_but_another_package_cannot() -> None:
    def define() -> Any:
        @dataclass(frozen=True)
        class Codec(Add):
            name = "test.own"

        return Codec

    first, second = define(), define()
    oz.register("codec", "test.own", first)
    oz.register("codec", "test.own", second)
    assert registry.find("codec", "test.own") is second
    with pytest.raises(oz.InvalidArgument, match="known already, as tests"):
        oz.register("codec", "test.own", Add)


def tenths(named: Any) -> DataType:
    return DataType(
        named,
        np.dtype("u1"),
        lambda json, _: round(10 * json),
        lambda value, _: int(value) / 10,
    )


@pytest.mark.parametrize("dtype", ["test.tenths", {"name": "test.tenths"}])
def test_a_user_defined_data_type_is_known_by_its_name(dtype: Any) -> None:
    """D4: also by the plain name."""
    oz.register("data_type", "test.tenths", tenths)
    group = oz.create_group({})
    array = group.create_array("a", shape=3, dtype=dtype, fill_value=15)
    doc = array.metadata.to_dict()
    assert (doc["data_type"], doc["fill_value"]) == ("test.tenths", 1.5)
    assert array[...].tolist() == [15, 15, 15]
    assert group.require_array("a", shape=3, dtype=dtype, exact=True) == array
    assert oz.open(group.store)["a"].dtype == np.dtype("u1")


@dataclass(frozen=True)
class Marked(ChunkKeyEncoding):
    """A key encoding that adds a mark."""

    mark: str = "k"

    def key(self, coords: Any) -> str:
        return self.mark + "_".join(map(str, coords))

    def coords(self, key: str, rank: int) -> tuple[int, ...] | None:
        return tuple(map(int, key.removeprefix(self.mark).split("_")))


class Half:
    """A key encoding that cannot parse its keys."""

    def key(self, coords: Any) -> str:
        return "k"


def test_the_defaults_of_a_key_encoding_are_written() -> None:
    """D4: the meaning of stored keys must not change with the class."""
    oz.register("chunk_key_encoding", "example.marked", Marked)
    array = oz.create_array({}, data=VALUES, chunks=2, chunk_key_encoding="example.marked")
    stated = {"name": "example.marked", "configuration": {"mark": "k"}}
    assert array.metadata.to_dict()["chunk_key_encoding"] == stated
    assert np.array_equal(oz.open(array.store)[...], VALUES)
    oz.register("chunk_key_encoding", "example.half", Half)
    with pytest.raises(oz.WrongType, match="inherit from"):
        oz.create_array({}, shape=3, chunk_key_encoding="example.half")
    with pytest.raises(oz.InvalidMetadata, match=r"example\.marked"):
        oz.create_array({}, shape=3, chunk_key_encoding={**stated, "configuration": {"x": 1}})


def test_names_of_the_package_are_known_before_they_are_loaded() -> None:
    """In a new process, in which nothing but the package itself is imported."""
    code = """
import omnizarr
names = {"codec": "zstd", "data_type": "int8", "chunk_grid": "regular",
         "chunk_key_encoding": "default", "store": "s3"}
for kind, name in names.items():
    try:
        omnizarr.register(kind, name, object)
    except omnizarr.InvalidArgument as e:
        print("is known already" in str(e))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n" * 5, done.stderr


THREADS = """
import threading
import omnizarr as oz

together, errors = threading.Barrier(8), []

def use(number):
    together.wait()
    try:
        array = oz.create_array(shape=4, dtype="i4", compressors="zstd" if number % 2 else "gzip")
        array[...] = number
        assert array[0] == number and oz.codecs.ZstdCodec and oz.storage.LocalStore and oz.convert
    except BaseException as e:
        errors.append(repr(e))

threads = [threading.Thread(target=use, args=(n,)) for n in range(8)]
[t.start() for t in threads], [t.join() for t in threads]
print(errors)
"""


def test_threads_may_be_the_first_to_use_the_package() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


UNKNOWN: list[tuple[str, Any, str]] = [
    ("codecs", ["bytes", "zarrs.unheard"], r"start with zarrs\. are private to the writer zarrs"),
    ("codecs", ["bytes", "qqqqqqqq"], r"private to the program that wrote it.*zarr-extensions"),
    ("data_type", {"name": "writer.type"}, r"start with writer\. are private to the writer writer"),
    ("data_type", "qqqqqqqq", r"private to the program that wrote it.*zarr-extensions"),
    ("chunk_grid", {"name": "qqqqqqqq"}, r"private to the program.*zarr-extensions"),
    ("chunk_key_encoding", {"name": "qqqqqqqq"}, r"private to the program.*zarr-extensions"),
    ("storage_transformers", ["qqqqqqqq"], r"private to the program.*zarr-extensions"),
    ("codecs", ["bytes", "zsdt"], r"did you mean 'zstd'"),
    ("codecs", ["bytes", "numcodecs.unheard"], r"no installed package"),
]


@pytest.mark.parametrize(("field", "value", "words"), UNKNOWN)
def test_an_unknown_name_stops_only_its_array(field: str, value: Any, words: str) -> None:
    store = {
        "zarr.json": json.dumps(group_doc()).encode(),
        **put(array_doc(**{field: value}), "strange", c0=b"1234"),
        **put(array_doc(), "plain", c0=b"1234"),
    }
    group = oz.open(store)
    assert sorted(group) == ["plain", "strange"]
    assert group["plain"][:2].tolist() == [0x31, 0x32]
    strange = group["strange"]
    assert isinstance(strange, oz.Array)
    assert strange.shape == (6,)
    assert "strange" in str(group.tree())
    with pytest.raises(oz.UnknownExtension, match=words) as caught:
        strange[:2]
    assert len(str(caught.value)) < 1000
    assert "imagecodecs_" not in str(caught.value)  # dozens of names that nobody asked for
    name = value if isinstance(value, str) else value[-1] if isinstance(value, list) else value
    assert caught.value.name == (name["name"] if isinstance(name, dict) else name)
