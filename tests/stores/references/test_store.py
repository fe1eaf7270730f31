"""`ReferenceStore`: whole hierarchies by real writers, views, the server, the exported suites."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import httpx
import numpy as np
import pytest

import omnizarr as oz
from omnizarr.errors import NodeNotFound, OmnizarrWarning, ReadOnly, StoreError
from omnizarr.storage import PrefixStore, ReferenceStore
from omnizarr.stores import Range, resolve
from omnizarr.testing.stores import ReadOnlyTests
from tests.viewer.conftest import client_of

HERE = Path(__file__).parent / "data"
VALUES = np.arange(240, dtype="<f4").reshape(12, 20)


class TestReferences(ReadOnlyTests):
    @pytest.fixture
    def reader(self, tmp_path: Path) -> ReferenceStore:
        (tmp_path / "f.bin").write_bytes(b"01")
        (tmp_path / "refs.json").write_text(json.dumps({"a/k": ["f.bin", 1, 1]}))
        return ReferenceStore(tmp_path / "refs.json")


@pytest.fixture
def refs(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("deep/t", data=VALUES, chunks=(5, 7), compression="gzip", shuffle=True)
        stored = file["deep/t"].id
        chunks = [stored.get_chunk_info(i) for i in range(stored.get_num_chunks())]
    array = {
        "zarr_format": 2, "shape": [12, 20], "chunks": [5, 7], "dtype": "<f4", "order": "C",
        "fill_value": 0.0, "filters": [{"id": "shuffle", "elementsize": 4}],
        "compressor": {"id": "zlib", "level": 4},
    }  # fmt: skip
    document: dict[str, Any] = {
        ".zgroup": json.dumps({"zarr_format": 2}),
        "deep/.zgroup": json.dumps({"zarr_format": 2}),
        "deep/t/.zarray": json.dumps(array),
    }
    for chunk in chunks:
        row, column = (int(at) // n for at, n in zip(chunk.chunk_offset, (5, 7), strict=True))
        place = [str(tmp_path / "a.h5"), chunk.byte_offset, chunk.size]
        document[f"deep/t/{row}.{column}"] = place
    (tmp_path / "a.json").write_text(json.dumps({"version": 1, "refs": document}))
    return tmp_path / "a.json"


def test_ranges_sizes_and_generations_are_those_of_the_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnizarr.stores.local.store.TICK", 0)  # a new file is trusted at once
    (tmp_path / "f.bin").write_bytes(bytes(range(100)))
    document = {
        "part": ["f.bin", 10, 20],
        "whole": ["f.bin"],
        "text": "hello",
        "none": ["f.bin", 5, 0],
    }
    (tmp_path / "r.json").write_text(json.dumps(document))
    store = ReferenceStore(tmp_path / "r.json")
    values = {
        "part": bytes(range(10, 30)), "whole": bytes(range(100)), "text": b"hello", "none": b"",
    }  # fmt: skip
    ranges = [None, Range(0, 3), Range(4), Range(-2), Range(-200), Range(2, 10**9), Range(500, 1)]
    requests = [(key, part) for key in values for part in ranges]
    expected = [v if r is None else r.of(v) for v in values.values() for r in ranges]
    assert store.get_many(requests) == expected
    assert [store.get(*request) for request in requests] == expected
    assert [store.get_versioned(*request)[0] for request in requests] == expected
    assert store.sizes([*values, "x"]) == {key: len(value) for key, value in values.items()}
    assert store.get("x") is None
    assert store.generation("x") is None
    before = {key: store.generation(key) for key in values}
    assert len({*before.values()}) == len(values)
    assert before == {key: store.get_versioned(key)[1] for key in values}
    (tmp_path / "f.bin").write_bytes(bytes(200))
    changed = {key for key in values if store.generation(key) != before[key]}
    assert changed == {"part", "whole", "none"}


@pytest.mark.parametrize("name", ["kerchunk.json", "kerchunk.parq"])
def test_references_by_kerchunk_are_read(name: str) -> None:
    if name.endswith(".parq"):
        pytest.importorskip("pyarrow")
    group = oz.open(HERE / name)
    with h5py.File(HERE / "ocean.nc") as file:
        for path in ("sst", "time", "lat", "lon", "empty", "deep/depth"):
            np.testing.assert_array_equal(group[path][...], file[path][...])
            assert group[path].chunks == (file[path].chunks or file[path].shape)
    assert oz.verify(HERE / name).ok


def test_a_view_shows_references_in_version_3(refs: Path) -> None:
    view = oz.view_as(refs, zarr_format=3)
    np.testing.assert_array_equal(oz.open(view, path="deep/t")[...], VALUES)
    assert "deep/t/c/2/2" in {*view.list()}
    with h5py.File(refs.with_suffix(".h5")) as file:
        stored = file["deep/t"].id.read_direct_chunk((10, 14))[1]
    assert oz.view_as(refs, zarr_format=2).get("deep/t/2.2") == bytes(stored)


def test_the_server_serves_references(refs: Path) -> None:
    with client_of(oz.open(refs)) as client:
        answer: httpx.Response = client.get("store/deep/t/.zarray")
        assert answer.json()["shape"] == [12, 20]
        assert client.get("v3/deep/t/zarr.json").json()["shape"] == [12, 20]
        with h5py.File(refs.with_suffix(".h5")) as file:
            stored = bytes(file["deep/t"].id.read_direct_chunk((0, 7))[1])
        assert client.get("store/deep/t/0.1").content == stored
        assert client.get("v3/deep/t/c/0/1").status_code == 200


def test_the_server_names_no_targets(refs: Path) -> None:
    with client_of(oz.open(refs)) as client:
        refs.with_suffix(".h5").rename(refs.with_suffix(".moved"))
        for path in ("store/deep/t/0.1", "v3/deep/t/c/0/1", "api/values?path=deep/t&select=0,0"):
            answer = client.get(path)
            assert answer.status_code in (422, 503)
            assert "in another file" in answer.text
            assert str(refs.parent) not in answer.text


def test_references_are_opened_by_path_url_and_prefix(refs: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "other.name"
    renamed.write_bytes(refs.read_bytes())
    for where in (refs, str(refs), f"file://{refs}", f"reference::{refs}", f"reference::{renamed}"):
        array = oz.open(where, path="deep/t")
        np.testing.assert_array_equal(array[3:, ::2], VALUES[3:, ::2])
        again = pickle.loads(pickle.dumps(array))
        assert np.array_equal(again[...], VALUES)
    with pytest.raises(NodeNotFound, match="no references"):
        oz.open(f"reference::{tmp_path}/none.json")
    with pytest.raises(NodeNotFound):
        oz.open(tmp_path / "none.json")


def test_a_folder_or_document_with_such_a_name_is_no_reference(tmp_path: Path) -> None:
    for name in ("a.json", "b.parq", "c.parquet"):
        oz.save(tmp_path / name, VALUES)
        np.testing.assert_array_equal(oz.open(tmp_path / name)[...], VALUES)
    with pytest.raises(NodeNotFound):
        oz.open(tmp_path / "a.json" / "zarr.json")
    (tmp_path / "text.json").write_text('{"hello": [1, 2]}')
    with pytest.raises(StoreError, match=r"\[url, offset, length\]"):
        oz.open(tmp_path / "text.json")


@contextmanager
def _never_written() -> Iterator[None]:
    with pytest.raises(ReadOnly, match="references are never written") as caught:
        yield
    assert "r+" not in str(caught.value)


def test_a_database_with_such_a_name_is_no_reference(tmp_path: Path) -> None:
    where = f"sqlite://{tmp_path}/a.json"
    oz.save(where, np.arange(3))
    assert oz.load(where).tolist() == [0, 1, 2]


def test_references_cannot_be_changed(refs: Path) -> None:
    for mode in ("r", "r+", "a"):
        array: Any = oz.open(refs, mode, path="deep/t", kind="array")
        with _never_written():
            array[0] = 1
    with _never_written():
        oz.open(refs, "w")
    with _never_written():
        resolve(str(refs)).set("k", b"")
    with _never_written():  # also behind another store
        oz.open(PrefixStore(resolve(str(refs)), "deep")).attrs["a"] = 1
    assert np.array_equal(oz.open(refs, path="deep/t")[...], VALUES)


def test_references_are_copied_converted_and_compared(refs: Path, tmp_path: Path) -> None:
    oz.copy(refs, tmp_path / "copy.zarr")
    oz.convert(refs, tmp_path / "three.zarr", zarr_format=3)
    for name in ("copy.zarr", "three.zarr"):
        np.testing.assert_array_equal(oz.open(tmp_path / name, path="deep/t")[...], VALUES)
    assert oz.verify(refs).ok
    with oz.configure(engine="reference"):
        np.testing.assert_array_equal(oz.open(refs, path="deep/t")[...], VALUES)


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_references_by_virtualizarr_are_read(tmp_path: Path, kind: Any) -> None:
    if kind == "parquet":
        pytest.importorskip("fastparquet")
        pytest.importorskip("pyarrow")
    virtualizarr = pytest.importorskip("virtualizarr")
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.parsers import HDFParser

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("t", data=VALUES, chunks=(5, 7), compression="gzip", shuffle=True)
        file.create_dataset("plain", data=VALUES)
        for dataset in (file["t"], file["plain"]):
            for axis, name in enumerate("yx"):
                dataset.dims[axis].label = name
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    target = tmp_path / ("refs.json" if kind == "json" else "refs.parq")
    with virtualizarr.open_virtual_dataset(
        url=f"file://{tmp_path}/a.h5", registry=registry, parser=HDFParser(), loadable_variables=[]
    ) as dataset:
        dataset.vz.to_kerchunk(str(target), format=kind)
    group = oz.open(target)
    for name in ("t", "plain"):
        with pytest.warns(OmnizarrWarning, match="not a field of version 2"):
            array = group[name]
        np.testing.assert_array_equal(array[...], VALUES)
