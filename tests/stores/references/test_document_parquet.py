"""Parquet references: by fsspec's writer, with every kind of row; damaged ones are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.errors import StoreError
from omnizarr.storage import ReferenceStore
from omnizarr.stores.references.document import MAX_RECORD
from tests.servers.web import Web

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ZARRAY = {
    "zarr_format": 2,
    "shape": [5, 4],
    "chunks": [2, 2],
    "dtype": "|u1",
    "compressor": None,
    "filters": None,
    "fill_value": 9,
    "order": "C",
}


def _rows(folder: Path, path: str, record: int, rows: list[tuple[Any, ...]], **kind: Any) -> None:
    columns = [*zip(*rows, strict=True)]
    names = ("path", "offset", "size", "raw")
    text, number = kind.get("category", pyarrow.string()), pyarrow.int64()
    types = (text, number, number, pyarrow.binary())
    table = pyarrow.table(
        {n: pyarrow.array(c, t) for n, c, t in zip(names, columns, types, strict=True)}
    )
    (folder / path).mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, folder / path / f"refs.{record}.parq", compression="zstd")


def _metadata(folder: Path, record_size: int = 4, **arrays: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    metadata = {".zgroup": {"zarr_format": 2}}
    metadata |= {f"{name}/.zarray": document for name, document in arrays.items()}
    (folder / ".zmetadata").write_text(
        json.dumps({"metadata": metadata, "record_size": record_size})
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.bin").write_bytes(bytes(range(100)))
    (tmp_path / "small.bin").write_bytes(b"wxyz")
    made = tmp_path / "refs.parq"
    _metadata(made, a=ZARRAY, none={**ZARRAY, "shape": [3, 3]})
    rows = [("data.bin", 10, 4, None), (None, 0, 0, b"abcd"), (None, 0, 0, None),
            ("small.bin", 0, 0, None)]  # fmt: skip
    _rows(made, "a", 0, rows)
    _rows(made, "a", 1, [("data.bin", 50, 4, None)] * 2)  # not padded
    return made


def test_every_kind_of_row_is_read(folder: Path) -> None:
    store = ReferenceStore(folder)
    assert store.get("a/0.0") == bytes([10, 11, 12, 13])
    assert store.get("a/0.1") == b"abcd"
    assert store.get("a/1.0") is None
    assert store.get("a/1.1") == b"wxyz"
    assert store.get("a/2.1") == bytes([50, 51, 52, 53])
    for key in ("a/3.0", "a/0", "a/0.0.0", "a/00.0", "a/-1.0", "none/0.0", "b/0.0", "a/x", "0.0"):
        assert store.get(key) is None
    chunks = {"a/0.0", "a/0.1", "a/1.1", "a/2.0", "a/2.1"}
    documents = {".zgroup", ".zmetadata", "a/.zarray", "none/.zarray"}
    assert {*store.list()} == chunks | documents
    assert {*store.list_prefix("a/")} == chunks | {"a/.zarray"}
    assert [*map(sorted, store.list_dir(""))] == [[".zgroup", ".zmetadata"], ["a/", "none/"]]
    assert {*store.list_dir("a/")[0]} == chunks | {"a/.zarray"}
    array = oz.open(folder, path="a")
    assert array[0].tolist() == [10, 11, 97, 98]
    assert array[2].tolist() == [9, 9, 119, 120]
    assert oz.open(folder, use_consolidated=True)["none"][0, 0] == 9


def test_names_of_files_may_be_categories_and_separators_slashes(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(bytes(range(100)))
    made = tmp_path / "r.parquet"
    scalar = {**ZARRAY, "shape": [], "chunks": []}
    _metadata(made, 100, a={**ZARRAY, "dimension_separator": "/"}, s=scalar)
    rows = [("data.bin", 4 * i, 4, None) for i in range(6)]
    _rows(made, "a", 0, rows, category=pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    _rows(made, "s", 0, [("data.bin", 7, 1, None)])
    array = oz.open(made, path="a")
    assert array[4].tolist() == [16, 17, 20, 21]
    assert oz.open(made, path="s")[()] == 7
    assert {*ReferenceStore(made).list_dir("a/1/")[0]} == {"a/1/0", "a/1/1"}


def test_references_on_a_web_server_are_read_and_listed(folder: Path, web: Web) -> None:
    web.values = {
        f"x/{file.relative_to(folder.parent)}": file.read_bytes()
        for file in folder.parent.rglob("*")
        if file.is_file()
    }
    group = oz.open(f"{web.url}/x/refs.parq")
    assert {*group} == {"a", "none"}
    assert group["a"][4].tolist() == [50, 51, 50, 51]


def test_a_grid_of_endless_length_is_listed_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"x")
    made = tmp_path / "r.parq"
    _metadata(made, 10, a={**ZARRAY, "shape": [2**60], "chunks": [1]})
    _rows(made, "a", 0, [("data.bin", 0, 1, None)])
    assert {*ReferenceStore(made).list()} == {".zgroup", ".zmetadata", "a/.zarray", "a/0"}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("[]", "has no references"),
        ('{"metadata": {".zattrs": 3}, "record_size": 4}', "text or an object, got the number 3"),
        ("{", "has no references"),
        ('{"metadata": {}}', "record_size"),
        ('{"metadata": [], "record_size": 3}', "record_size"),
        ('{"metadata": {}, "record_size": true}', "record_size"),
        ('{"metadata": {}, "record_size": 0}', f"1 to {MAX_RECORD}"),
        ('{"metadata": {}, "record_size": 99999999999}', f"1 to {MAX_RECORD}"),
        ('{"metadata": {"a/.zarray": {}}, "record_size": 3}', "shape"),
        ('{"metadata": {"a/.zarray": {"shape": [1], "chunks": [0]}}, "record_size": 3}', "shape"),
        ('{"metadata": {"a/.zarray": {"shape": [1], "chunks": []}}, "record_size": 3}', "shape"),
    ],
)
def test_malformed_metadata_are_refused(tmp_path: Path, document: str, reason: str) -> None:
    made = tmp_path / "r.parq"
    made.mkdir()
    (made / ".zmetadata").write_text(document)
    with pytest.raises(StoreError, match=reason):
        ReferenceStore(made)


def test_a_file_with_too_many_rows_is_refused(folder: Path) -> None:
    _rows(folder, "a", 0, [("data.bin", 0, 4, None)] * 5)
    with pytest.raises(StoreError, match="5 rows"):
        ReferenceStore(folder).get("a/0.0")


@pytest.mark.parametrize(
    ("path", "offset", "size"),
    [("data.bin", -1, 4), ("data.bin", 0.5, 4), ("data.bin", 0, True), (3, 0, 4)],
)
def test_a_row_is_checked_as_strictly_as_a_list_in_json(
    folder: Path, path: Any, offset: Any, size: Any
) -> None:
    table = pyarrow.table({"path": [path], "offset": [offset], "size": [size]})
    parquet.write_table(table, folder / "a" / "refs.0.parq")
    with pytest.raises(StoreError, match=r"must be \[url\]"):
        ReferenceStore(folder).get("a/0.0")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.integers(0, 10**6), st.binary(max_size=3), st.booleans())
def test_damaged_files_are_errors(folder: Path, at: int, noise: bytes, cut: bool) -> None:
    file = folder / "a" / "refs.0.parq"
    kept = folder / "kept"
    if not kept.exists():
        kept.write_bytes(file.read_bytes())
    data = kept.read_bytes()
    place = at % len(data)
    file.write_bytes(data[:place] if cut else data[:place] + noise + data[place + len(noise) :])
    try:
        found = ReferenceStore(folder).get_many([(f"a/0.{i}", None) for i in range(2)])
    except (StoreError, ValueError):
        return
    assert all(value is None or isinstance(value, bytes) for value in found)
