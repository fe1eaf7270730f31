"""The 2022 draft of version 3: nodes, names, data types, grids, memory layout and codecs."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import data_types
from omnizarr.codecs import Spec, bind_pipeline
from omnizarr.data_types import DataType
from omnizarr.model import Named
from tests.conformance.draft_metadata import (
    BIG,
    DRAFT,
    GZIP,
    array,
    hierarchy,
    regular,
    with_array,
)
from tests.test_extending import Add, NoBase

ADD_ONE = "http://example.org/codec/add-one"


class AddOne(Add):
    """A codec on arrays that remembers the shapes it was given."""

    name = ADD_ONE
    seen: ClassVar[list[tuple[int, ...]]] = []

    def encode(self, array: Any, spec: Spec) -> Any:
        self.seen.append(array.shape)
        return super().encode(array, spec)


@pytest.fixture
def add_one(own_names: None) -> list[tuple[int, ...]]:
    oz.register("codec", ADD_ONE, AddOne)
    AddOne.seen.clear()
    return AddOne.seen


def written(data: Any, **options: Any) -> dict[str, bytes]:
    """Return the store after writing `data` as one chunk of raw bytes in an array at the root."""
    store: dict[str, bytes] = {}
    values = np.asarray(data)
    settings = {"chunks": values.shape, "compressors": None, **options}
    created = oz.create_array(
        store, shape=values.shape, dtype=values.dtype, zarr_format=DRAFT, **settings
    )
    with oz.configure(write_empty_chunks=True):
        created[...] = values
    return store


# Versions and nodes


@pytest.mark.shows("D3-01")
def test_a_later_minor_version_opens_and_another_major_version_does_not() -> None:
    document = {"meta/a.array.json": array()}
    later = hierarchy(document, zarr_format="https://purl.org/zarr/spec/core/3.1")
    opened = oz.open(later, "r+", path="a")
    opened[...] = np.arange(24).reshape(4, 6)
    assert oz.open(later, path="a")[3, 5] == 23
    other = hierarchy(document, zarr_format="https://purl.org/zarr/spec/core/4.0")
    with pytest.raises(oz.InvalidMetadata, match=r"zarr\.json: zarr_format: .*core/4\.0"):
        oz.open(other)


@pytest.mark.shows("D3-03", "D3-99")
@pytest.mark.parametrize("path", ["", "a"])
def test_open_group_opens_the_group_of_a_node_with_both_metadata(path: str) -> None:
    """C7: the error said that there was an array, not a group."""
    node, below = (f"meta/{path}.", f"meta/{path}/") if path else ("meta/", "meta/")
    documents = {"array.json": array(), "group.json": {"attributes": {"is": "group"}}}
    both = {node + name: document for name, document in documents.items()}
    store = hierarchy({**both, f"{below}b.group.json": {"attributes": {}}})
    before = dict(store)
    for mode in ("r", "r+"):
        with pytest.warns(oz.OmnizarrWarning, match="the group is opened, read-only"):
            group = oz.open(store, mode, path=path, kind="group")
        assert (dict(group.attrs), list(group)) == ({"is": "group"}, ["b"])
        with pytest.raises(oz.ReadOnly):
            group.attrs["x"] = 1
    with pytest.warns(oz.OmnizarrWarning, match="the array is used"):
        assert isinstance(oz.open(store, path=path), oz.Array)
    assert store == before


@pytest.mark.shows("D3-04", "D3-121")
@pytest.mark.parametrize("path", ["foo/bar", "/foo/bar", "/foo/bar/", "foo//bar"])
def test_paths_are_stored_in_one_form(path: str) -> None:
    store: dict[str, bytes] = {}
    root = oz.create_group(store, zarr_format=DRAFT)
    made = root.create_group(path)
    assert made.name == "/foo/bar"
    assert sorted(store) == ["meta/foo/bar.group.json", "meta/group.json", "zarr.json"]
    assert list(root) == ["foo"]
    assert list(oz.open(store, path="/foo")) == ["bar"]


@pytest.mark.shows("D3-06")
def test_a_chunk_of_length_0_is_refused_on_an_axis_that_is_not_empty() -> None:
    bad = with_array(shape=[5], chunk_grid=regular(0))
    with pytest.raises(oz.InvalidMetadata, match=r"a\.array\.json: chunk_grid\.chunk_shape\[0\]"):
        oz.open(bad, path="a")
    store: dict[str, bytes] = {}
    with pytest.raises(oz.InvalidArgument, match="length 0"):
        oz.create_array(store, shape=5, chunks=0, dtype="i4", zarr_format=DRAFT)
    assert store == {}
    empty = with_array(shape=[0], chunk_grid=regular(0))
    assert oz.open(empty, path="a")[...].shape == (0,)


@pytest.mark.shows("D3-07")
@pytest.mark.parametrize("inside", ["meta", "meta/foo", "data/foo/baz", "data"])
def test_opening_a_folder_inside_a_hierarchy_is_an_error_that_names_the_root(
    tmp_path: Path, inside: str
) -> None:
    root = tmp_path / "root"
    made = oz.create_array(root, path="foo/baz", shape=4, dtype="i4", zarr_format=DRAFT)
    made[...] = 7
    with pytest.raises(oz.NodeNotFound, match="can only be opened at its root") as error:
        oz.open(root / inside)
    assert repr(oz.storage.LocalStore(root)) in str(error.value)
    assert np.array_equal(oz.open(root, path="foo/baz")[...], [7] * 4)


# Names


@pytest.mark.shows("D3-08")
@pytest.mark.parametrize("name", ["a b", "é", ".", "..", "...", "a:b", "a~", "x/ /y", "a/.../b"])
def test_names_with_other_characters_or_only_periods_are_refused(name: str) -> None:
    store: dict[str, bytes] = {}
    for create in (oz.create_group, lambda s, **o: oz.create_array(s, shape=1, dtype="i4", **o)):
        with pytest.raises(oz.InvalidName, match=r"not allowed|allows only"):
            create(store, path=name, zarr_format=DRAFT)
    assert store == {}


@pytest.mark.shows("D3-08", "D3-75")
@pytest.mark.parametrize("name", ["a b", "é", "a~", "...", "a:b"])
def test_a_stored_node_with_a_forbidden_name_is_a_problem_and_opens_with_a_warning(
    name: str,
) -> None:
    """C4: the conformance table said that it was refused."""
    store = hierarchy({f"meta/{name}.array.json": array()})
    problems = oz.validate(store)
    assert [p.level for p in problems] == ["error"]
    assert repr(name) in problems[0].message
    for look in (
        lambda: list(oz.open(store)),
        lambda: [oz.open(store, path=name).path],
        lambda: [oz.open(store)[name].path],
    ):
        with pytest.warns(oz.OmnizarrWarning, match=f"{name!r}, but the draft allows only"):
            assert look() == [name]


@pytest.mark.shows("D3-09")
def test_names_are_case_sensitive() -> None:
    store: dict[str, bytes] = {}
    for value, name in enumerate(("foo", "FOO"), start=1):
        created = oz.create_array(
            store, path=name, shape=1, dtype="u1", compressors=None, zarr_format=DRAFT
        )
        created[...] = value
    assert list(oz.open(store)) == ["FOO", "foo"]
    assert store["data/foo/c0"] == b"\x01"
    assert store["data/FOO/c0"] == b"\x02"


# Data types


@pytest.mark.shows("D3-12", "D3-13", "D3-14", "D3-15", "D3-16", "D3-18", "D3-108", "D3-116")
@pytest.mark.shows("DX-07")
@pytest.mark.parametrize(
    ("dtype", "values", "stored"),
    [
        ("bool", [True, False], "0100"),
        *((f"int{8 * n}", [-2, 1], f"fe{'ff' * (n - 1)}01{'00' * (n - 1)}") for n in (1, 2, 4, 8)),
        *((f"uint{8 * n}", [2 ** (8 * n - 1)], "00" * (n - 1) + "80") for n in (1, 2, 4, 8)),
        ("float16", [1.0], "003c"),
        ("float32", [1.0], "0000803f"),
        ("float64", [1.0], "000000000000f03f"),
        ("complex64", [1 + 2j], "0000803f00000040"),
        ("complex128", [1 + 2j], "000000000000f03f0000000000000040"),
    ],
)
@pytest.mark.parametrize("order", ["<", ">"])
def test_items_are_stored_in_their_default_representation(
    dtype: str, values: list[Any], stored: str, order: str
) -> None:
    # The byte order in memory does not matter, unless the endian codec is asked for.
    given_values = np.array(values, np.dtype(dtype).newbyteorder(order))
    store: dict[str, bytes] = {}
    created = oz.create_array(
        store, shape=len(values), chunks=len(values), dtype=dtype, codecs=[], zarr_format=DRAFT
    )
    created[...] = given_values
    assert store["data/c0"].hex() == stored
    assert np.array_equal(oz.open(store)[...], given_values)
    document = json.loads(store["meta/array.json"])
    assert document["data_type"] == dtype
    assert "codecs" not in document


# Grids


@pytest.mark.shows("D3-23", "D3-111")
@pytest.mark.parametrize("separator", [None, "/", "."])
def test_the_default_separator_is_a_slash_and_is_always_written(
    separator: str | None,
) -> None:
    store = written(np.ones((2, 2), "u1"), chunks=(1, 2), chunk_key_encoding=separator)
    used = separator or "/"
    assert json.loads(store["meta/array.json"])["chunk_grid"] == regular(1, 2, separator=used)
    chunks = sorted(k for k in store if k.startswith("data/"))
    assert chunks == [f"data/c0{used}0", f"data/c1{used}0"]


@pytest.mark.shows("D3-27")
@pytest.mark.parametrize("separator", ["/", "."])
def test_chunk_identifiers_are_ascii_and_unique(separator: str) -> None:
    store = with_array(shape=[12, 12], chunk_grid=regular(1, 1, separator=separator))
    opened = oz.open(store, path="a")
    keys = {opened.chunk_key(coords) for coords in itertools.product(range(12), repeat=2)}
    assert len(keys) == 144
    assert {f"data/a/c1{separator}11", f"data/a/c11{separator}1"} <= keys
    assert all(key.isascii() for key in keys)


@pytest.mark.shows("D3-28")
def test_there_are_no_negative_chunk_indices() -> None:
    store = with_array(data_type="uint8")
    opened = oz.open(store, "r+", path="a")
    opened[-1, -1] = 9
    assert [k for k in store if k.startswith("data/")] == ["data/a/c1/1"]
    store["data/a/c-1/0"] = bytes(6)
    assert np.argwhere(opened.chunks_present()).tolist() == [[1, 1]]
    grid = {"extension": "http://example.org/grid/unaligned", "type": "offset", "origin": [-1, 0]}
    with pytest.raises(oz.UnknownExtension, match=r"http://example\.org/grid/unaligned"):
        oz.open(with_array(chunk_grid=grid), path="a", kind="array")[...]


# Memory layout


@pytest.mark.shows("D3-30", "D3-35")
@pytest.mark.parametrize(("layout", "shape"), [("C", (2, 3)), ("F", (3, 2))])
def test_array_codecs_come_first_and_get_the_shape_of_the_memory_layout(
    add_one: list[tuple[int, ...]], layout: Any, shape: tuple[int, ...]
) -> None:
    codecs = [{"type": ADD_ONE}, GZIP]
    fields = {"shape": [2, 3], "chunk_grid": regular(2, 3), "chunk_memory_layout": layout}
    store = with_array(**fields, codecs=codecs)
    values = np.arange(6, dtype="<i4").reshape(2, 3)
    oz.open(store, "r+", path="a")[...] = values
    assert add_one == [shape]
    stored = np.frombuffer(gzip.decompress(store["data/a/c0/0"]), "<i4")
    assert stored.tolist() == (values.ravel(order=layout) + 1).tolist()
    assert np.array_equal(oz.open(store, path="a")[...], values)


@pytest.mark.shows("D3-31")
@pytest.mark.parametrize("layout", ["C", "F"])
def test_types_of_variable_size_have_no_memory_layout(own_names: None, layout: str) -> None:
    def bind(named: Named) -> DataType:
        text = data_types.bind(Named("string"))
        return DataType(named, text.dtype, text.decode, text.encode, zero="")

    uri = "http://example.org/type/words"
    oz.register("data_type", uri, bind)
    store = with_array(
        data_type={"extension": uri, "type": "words"}, chunk_memory_layout=layout, fill_value=""
    )
    with pytest.raises(oz.InvalidMetadata, match=f"variable-length type '{uri}'"):
        oz.open(store, path="a", kind="array")
    empty: dict[str, bytes] = {}
    with pytest.raises(oz.CannotExpress, match="variable length"):
        oz.create_array(empty, shape=3, dtype=str, order=layout, zarr_format=DRAFT)
    assert empty == {}


# Codecs


@pytest.mark.shows("D3-34", "D3-93")
def test_codecs_run_in_order_when_encoding_and_in_reverse_when_decoding() -> None:
    store = with_array(codecs=[BIG, GZIP])
    opened = oz.open(store, "r+", path="a")
    values = np.arange(24, dtype="i4").reshape(4, 6)
    opened[...] = values
    assert gzip.decompress(store["data/a/c1/1"]) == values[2:, 3:].astype(">i4").tobytes()
    by_hand = {k: v for k, v in store.items() if not k.startswith("data/")}
    by_hand["data/a/c0/0"] = gzip.compress(values[:2, :3].astype(">i4").tobytes())
    assert np.array_equal(oz.open(by_hand, path="a")[:2, :3], values[:2, :3])


@pytest.mark.shows("D3-37")
@pytest.mark.parametrize("name", ["gzip", "numcodecs.zlib", "bytes", "two words: x"])
def test_a_codec_that_is_not_named_by_a_uri_is_refused(name: str) -> None:
    """C4: it opened as if it had one."""
    store = with_array(codecs=[GZIP, {"type": name, "configuration": {"level": 1}}])
    with pytest.raises(oz.InvalidMetadata, match=r"codecs\[1\]\.type: expected a URI, got"):
        oz.open(store, path="a", kind="array")
    [problem] = oz.validate(store)
    assert (problem.field, problem.level) == ("codecs[1].type", "error")
    by_name = with_array(codecs=[{"type": "urn:example:none"}])
    assert oz.open(by_name, path="a").shape == (4, 6)


@pytest.mark.shows("D3-38")
def test_a_new_codec_needs_only_its_registration(own_names: None) -> None:
    class Flip(NoBase):
        name = "http://example.org/codec/x"

    stated = {"type": Flip.name, "configuration": {"mask": 255}}
    store = with_array(data_type="uint8", codecs=[stated])
    store["data/a/c0/0"] = bytes([255, 254, 253, 252, 251, 250])
    with pytest.raises(oz.UnknownExtension, match=Flip.name):
        oz.open(store, path="a", kind="array")[...]
    oz.register("codec", Flip.name, Flip)
    assert oz.open(store, path="a")[:2, :3].tolist() == [[0, 1, 2], [3, 4, 5]]
    created = written(np.array([1], "u1"), codecs=["bytes", Flip(1)])
    assert json.loads(created["meta/array.json"])["codecs"] == [
        {"type": Flip.name, "configuration": {"mask": 1}}
    ]
    assert created["data/c0"] == b"\x00"


PURL = "https://purl.org/zarr/spec/codecs"


@pytest.mark.shows("D3-33", "D3-39")
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize(
    ("codec", "kind"),
    [
        ({"type": "http://example.org/none"}, oz.UnknownExtension),
        ({"type": f"{PURL}/none/1.0"}, oz.UnknownExtension),
        ({"type": f"{PURL}/gzip/1.0", "configuration": {"level": 10}}, oz.InvalidMetadata),
        ({"type": f"{PURL}/zlib/1.0", "configuration": {"level": 10}}, oz.InvalidMetadata),
        ({"type": f"{PURL}/blosc/1.0", "configuration": {"clevel": 10}}, oz.InvalidMetadata),
        ({"type": f"{PURL}/endian/1.0", "configuration": {"endian": 3}}, oz.InvalidMetadata),
        (BIG, oz.InvalidMetadata),
    ],
)
@pytest.mark.parametrize("at", [0, 1])
def test_errors_name_a_codec_and_its_position_in_the_metadata(
    codec: dict[str, Any], kind: type[Exception], layout: str, at: int
) -> None:
    """C4: they counted and named codecs that the draft does not have."""
    codecs = [codec] if at == 0 and codec is not BIG else [GZIP, codec]
    store = with_array(chunk_memory_layout=layout, codecs=codecs)
    before = dict(store)
    with pytest.raises(kind) as caught:
        oz.open(store, path="a", kind="array")[...]
    if kind is oz.UnknownExtension:  # which prevents reading data, but not metadata
        assert oz.open(store, path="a").shape == (4, 6)
        with pytest.raises(kind):
            oz.open(store, "r+", path="a")[...] = 1
    assert store == before
    message = str(caught.value)
    assert codec["type"] in message
    assert f"codecs[{len(codecs) - 1}]" in message
    assert not any(word in message for word in ("'bytes'", "transpose", "numcodecs."))
    [problem] = oz.validate(store)
    assert codec["type"] in problem.message
    assert f"codecs[{len(codecs) - 1}]" in problem.message


@pytest.mark.shows("D3-32")
def test_representations_are_known_without_data() -> None:
    store = with_array(codecs=[BIG, GZIP], chunk_memory_layout="F")
    model = oz.open(store, path="a").metadata
    int32 = data_types.bind(model.data_type)
    pipeline = bind_pipeline(model.codecs, Spec((2, 3), int32, np.zeros((), "<i4")))
    assert (pipeline.inner.shape, pipeline.inner.data_type.dtype) == ((3, 2), np.dtype("<i4"))
    [(compressor, size)] = pipeline.bytes_bytes
    assert (compressor.kind, size) == ("bytes->bytes", 24)
    assert pipeline.encoded_size is None
    plain = bind_pipeline(model.codecs[:2], pipeline.spec)
    assert plain.encoded_size == 24
