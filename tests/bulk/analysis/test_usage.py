"""Disk usage is the sum of the files, divided among the nodes they belong to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk.analysis import usage
from omnizarr.testing import RecordingStore
from tests.property.strategies import FORMATS, described, values


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def size(paths: list[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def make(folder: Path, **options: Any) -> oz.Group:
    group = oz.create_group(folder, **options)
    group.attrs["title"] = "measured"
    group["a"] = np.arange(1000.0).reshape(10, 100)
    group["deep/er/b"] = np.zeros((30, 30), "i2")
    group.create_array("deep/c", shape=(100, 100), chunks=(10, 10), dtype="u1", fill_value=9)
    group["deep/c"][:20, :20] = 1
    return group


@pytest.mark.parametrize("format", [2, "3-draft", 3])
def test_the_total_is_that_of_all_files(tmp_path: Path, format: Any) -> None:
    make(tmp_path / "g", zarr_format=format)
    (tmp_path / "g" / "deep" / "notes.txt").parent.mkdir(exist_ok=True)
    (tmp_path / "g" / "deep" / "notes.txt").write_text("not Zarr")
    found = oz.disk_usage(tmp_path / "g")
    every = files(tmp_path / "g")
    assert found.total.bytes == size(every)
    assert found.total.keys == len(every)
    assert found.total.other_keys == 1
    assert found["/"] == found.total
    assert found["deep/c"].chunk_keys == 4
    assert found["deep/c"].decoded_bytes == 400
    assert found["deep/c"].logical_bytes == 10000
    if format != "3-draft":
        assert found["deep"].bytes == size(files(tmp_path / "g" / "deep"))
        part = oz.disk_usage(tmp_path / "g", path="deep")
        assert part.total.bytes == found["deep"].bytes
        assert part.nodes == {p: n for p, n in found.nodes.items() if p.startswith("/deep")}


def test_consolidated_metadata_and_those_of_two_formats_are_metadata(tmp_path: Path) -> None:
    make(tmp_path / "g", zarr_format=2)
    oz.consolidate_metadata(tmp_path / "g")
    oz.convert(tmp_path / "g", in_place=True)
    with pytest.warns(oz.OmnizarrWarning, match="zarr 3 and zarr 2"):
        found = oz.disk_usage(tmp_path / "g")
    assert found.total.bytes == size(files(tmp_path / "g"))
    assert found.total.other_keys == 0
    names = {".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json"}
    metadata = [path for path in files(tmp_path / "g") if path.name in names]
    assert found.total.metadata_bytes == size(metadata)


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_an_array_of_any_format_has_all_its_keys(format: int | str, data: st.DataObject) -> None:
    array = data.draw(described(format, most=6, shards=True))
    store = oz.storage.MemoryStore()
    written = array.create(store)
    written[...] = data.draw(values(array.dtype, array.shape))
    found = oz.disk_usage(store).nodes["/"]
    assert found.kind == "array"
    assert found.keys == len([*store.list()])
    assert found.bytes == sum(len(store.get(key) or b"") for key in store.list())
    assert found.other_keys == 0
    assert found.bytes == written.nbytes_stored() + sum(
        len(store.get(key) or b"") for key in ("zarr.json",) if format == "3-draft"
    )
    if array.dtype.kind not in "TO":
        assert found.logical_bytes == written.nbytes
        plain = "shards" not in array.options
        assert not plain or found.decoded_bytes == found.chunk_keys * array.dtype.itemsize * int(
            np.prod(array.options["chunks"])
        )


def test_a_listing_with_sizes_replaces_a_request_for_each_key(tmp_path: Path) -> None:
    make(tmp_path / "g")
    for source in (tmp_path / "g", tmp_path / "g" / "a"):
        store = RecordingStore(oz.storage.LocalStore(source))
        oz.disk_usage(store)
        asked = [key for call in store.calls if call.operation == "sizes" for key in call.keys]
        assert set(asked) <= {"zarr.json"}


def test_a_group_of_many_members_is_listed_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "g")
    expected = oz.disk_usage(tmp_path / "g")
    monkeypatch.setattr(usage, "MAX_PARTS", 1)
    assert oz.disk_usage(tmp_path / "g") == expected


def test_a_node_that_cannot_be_read_still_has_its_bytes(tmp_path: Path) -> None:
    group = make(tmp_path / "g")
    group.store.set("deep/broken/zarr.json", b"{}")
    group.store.set("deep/broken/c/0", b"chunk")
    found = oz.disk_usage(group)
    assert found.total.bytes == size(files(tmp_path / "g"))
    assert list(found.errors) == ["/deep/broken"]
    assert found.nodes["/deep/broken"].kind == "unreadable"
    assert found["deep/broken"].bytes == 7


def test_an_array_of_an_unknown_codec_is_measured(tmp_path: Path) -> None:
    group = make(tmp_path / "g")
    text = (group.store.get("a/zarr.json") or b"").replace(b'"zstd"', b'"secret"')
    group.store.set("a/zarr.json", text)
    found = oz.disk_usage(group)
    assert (found.errors, found["a"].chunk_keys) == ({}, 1)


def test_the_report_is_text_and_plain_data(tmp_path: Path) -> None:
    make(tmp_path / "g")
    found = oz.disk_usage(tmp_path / "g")
    assert [line.split()[-1] for line in str(found).splitlines()] == [
        "/", "/a", "/deep", "/deep/c", "/deep/er", "/deep/er/b",
    ]  # fmt: skip
    summary = found["a"].summary()
    assert summary["bytes"] == summary["metadata_bytes"] + summary["chunk_bytes"]
    assert summary["ratio"] == 8000 / summary["chunk_bytes"]
