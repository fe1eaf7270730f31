"""The conversion as a job: any format to any other, links, memory, damage, interruptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk import journal
from omnizarr.bulk.convert import ConvertReport
from omnizarr.errors import StoreError
from omnizarr.stores import MemoryStore
from tests.files import files
from tests.servers.web import Web

FORMATS: tuple[int | str, ...] = (1, 2, "3-draft", 3)
WITH_GROUPS = FORMATS[1:]
TYPES = ("u1", "<i2", ">i4", "<f4", ">f8", "?", "<c8")


def shards(chunks: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(2 * n for n in chunks)


@st.composite
def arrays(draw: st.DrawFn, zarr_format: int | str) -> dict[str, Any]:
    """Return the options of an array and some of its values: others are the fill value."""
    shape = draw(st.lists(st.integers(0, 7), min_size=1, max_size=3).map(tuple))
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 250
    chunks = tuple(draw(st.integers(1, 4)) for _ in shape)
    options: dict[str, Any] = {"shape": shape, "dtype": dtype, "chunks": chunks}
    if zarr_format == 3 and draw(st.booleans()):
        options["shards"] = shards(chunks)
    kind = draw(st.sampled_from(["default", "zlib", "gzip"]))
    if kind != "default" and zarr_format in (2, 3):
        options["compressors"] = [{"id": kind}] if zarr_format == 2 else ["gzip"]
    options["fill_value"] = draw(st.sampled_from([0, 1]))
    written = draw(st.integers(0, shape[0]))
    return {"options": options, "values": values.astype(dtype), "written": written}


def make(store: Any, zarr_format: int | str, described: dict[str, dict[str, Any]]) -> None:
    """Create the arrays; in version 1 the only one is the root."""
    if zarr_format != 1:
        oz.create_group(store, zarr_format=zarr_format, attributes={"about": ["a", 1]})
    for name, each in described.items():
        path = "" if zarr_format == 1 else name
        array = oz.create_array(store, path=path, zarr_format=zarr_format, **each["options"])
        array[: each["written"]] = each["values"][: each["written"]]


def contents(store: Any) -> dict[str, Any]:
    """Return the values and attributes of all nodes."""
    root = oz.open(store)
    nodes = {"": root}
    if isinstance(root, oz.Group):
        nodes |= dict(root.members(None))
    return {
        path: (dict(node.attrs), node[...].tolist() if isinstance(node, oz.Array) else None)
        for path, node in nodes.items()
    }


@given(data=st.data())
def test_any_format_becomes_any_other_with_the_same_values(data: st.DataObject) -> None:
    source = data.draw(st.sampled_from(FORMATS))
    names = ["x"] if source == 1 else data.draw(st.sampled_from([["x"], ["x", "g/y"], []]))
    described = {name: data.draw(arrays(source)) for name in names}
    target = data.draw(st.sampled_from(FORMATS if source == 1 else WITH_GROUPS))
    a: dict[str, bytes] = {}
    b: dict[str, bytes] = {}
    make(a, source, described)
    before = dict(a)
    report = oz.convert(a, b, zarr_format=target, verify=True, workers=2)
    assert a == before
    assert contents(b) == contents(a)
    assert oz.open(b).zarr_format == target
    assert report.arrays == len(described)
    assert report.chunks_verified == report.chunks_copied + report.chunks_encoded
    assert oz.verify(b).findings == []
    again: dict[str, bytes] = {}
    oz.convert(b, again, zarr_format=source)
    assert contents(again) == contents(a)


def large(where: Path, zarr_format: int = 2, count: int = 3) -> Path:
    """Create a hierarchy of a few arrays, one of which has to be re-encoded for version 3."""
    group = oz.create_group(where, zarr_format=zarr_format, attributes={"n": 1})
    for number in range(count):
        data = np.random.default_rng(number).integers(0, 9, (40, 30)).astype("<i4")
        group.create_array(f"g{number % 2}/a{number}", data=data, chunks=(5, 4))
    mixed = np.array([(i, i / 2) for i in range(50)], [("a", "<i4"), ("b", ">f8")])
    group.create_array("mixed", data=mixed, chunks=7)
    return where


def test_an_interrupted_conversion_is_resumed_without_writing_chunks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "BATCH", 7)
    large(tmp_path / "a")
    oz.convert(tmp_path / "a", tmp_path / "b")

    def stop(state: oz.jobs.Progress) -> None:
        assert isinstance(state.outcome, ConvertReport)
        assert state.outcome.chunks_total == 200
        if state.outcome.chunks > 100:
            raise oz.StoreError("the line is cut")

    with pytest.raises(oz.StoreError, match="line is cut"):
        oz.convert(tmp_path / "a", tmp_path / "c", progress=stop)
    found = [tmp_path / "c" / name for name in files(tmp_path / "c") if "omnizarr" not in name]
    there = {path: path.stat().st_mtime_ns for path in found}
    assert len(there) > 100
    report = oz.convert(tmp_path / "a", tmp_path / "c", resume=True)
    assert {p: p.stat().st_mtime_ns for p in there} == there
    assert report.chunks == 200
    assert files(tmp_path / "b") == files(tmp_path / "c")


# What the target cannot express, damage, memory


def test_all_nodes_that_a_format_cannot_express_are_named_at_once(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path / "a", attributes={})
    group.create_array("fine", data=[1, 2])
    for name in ("one", "g/two", "three"):
        group.create_array(name, data=np.array(["a"], np.dtypes.StringDType()))
    with pytest.raises(oz.CannotExpress, match=r"3 nodes.*nothing was written") as error:
        oz.convert(tmp_path / "a", tmp_path / "b", zarr_format="3-draft")
    assert [p.key for p in error.value.problems] == ["/g/two", "/one", "/three"]
    assert all(f"- {p.key}: {p.message}" in str(error.value) for p in error.value.problems)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("kind", ["copied", "encoded", "unpacked"])
def test_damaged_chunks_are_skipped_and_listed_on_request(tmp_path: Path, kind: str) -> None:
    data = np.arange(64, dtype="i4").reshape(8, 8) + 1
    options: dict[str, Any] = {"chunks": (2, 2)}
    if kind == "unpacked":
        options["shards"] = (4, 4)
    oz.create_array(tmp_path / "a", data=data, compressors=["zstd"], **options)
    target: int | str = {"copied": 2, "encoded": "3-draft", "unpacked": 2}[kind]
    key = tmp_path / "a/c/1/0"
    stored = bytearray(key.read_bytes())
    expected = data.copy()
    if kind == "unpacked":  # the first chunk of the shard
        stored[:4] = b"\0\0\0\0"
        expected[4:6, 0:2] = 0
    else:
        stored[:4] = b"\0\0\0\0"
        expected[2:4, 0:2] = 0
    key.write_bytes(stored)
    with pytest.raises(oz.ChunkError):
        oz.convert(tmp_path / "a", tmp_path / "b", zarr_format=target)
    with pytest.raises(oz.NodeNotFound):
        oz.open(tmp_path / "b")
    report = oz.convert(
        tmp_path / "a", tmp_path / "c", zarr_format=target, skip_damaged=True, verify=True
    )
    assert len(report.damaged) == 1
    assert np.array_equal(oz.open(tmp_path / "c")[...], expected)


def test_a_chunk_that_changed_while_it_was_written_is_found(tmp_path: Path) -> None:
    class Lying(MemoryStore):
        def set_many(self, values: Any) -> None:
            for key, value in values:
                self.set(key, bytes(value)[:-1] + b"?" if key == "c/0" else value)

    oz.create_array(tmp_path / "a", data=np.arange(9), chunks=3)
    with pytest.raises(oz.StoreError, match="not what was written"):
        oz.convert(tmp_path / "a", Lying(), verify=True)


def test_one_chunk_must_fit_into_the_memory_that_was_given() -> None:
    a: dict[str, bytes] = {}
    oz.create_array(a, data=np.zeros(10**6), chunks=10**6, compressors=["zstd"])
    with pytest.raises(oz.InvalidArgument, match=r"one chunk needs up to .* give memory="):
        oz.convert(a, {}, zarr_format="3-draft", memory="1MB")
    assert oz.convert(a, {}, zarr_format="3-draft").arrays == 1
    plan = oz.jobs.Convert(a, {}, zarr_format="3-draft").plan(2)
    assert plan.memory is not None
    assert plan.memory >= 2 * 8 * 10**6


def test_many_chunks_are_listed_as_they_are_converted() -> None:
    """No listing is held in memory: tasks come one after the other."""

    class Counting(MemoryStore):
        listed = 0

        def list(self) -> Iterator[str]:
            for key in super().list():
                self.listed += 1
                yield key

    source = Counting()
    oz.create_array(source, data=np.arange(9000) + 1, chunks=1, zarr_format=2)
    plan = oz.jobs.Convert(source, {}, measure=False).plan()
    assert plan.output is not None
    plan.output.begin(False, False)
    source.listed = 0
    tasks = plan.phases[0].tasks()
    assert next(tasks).work().chunks_copied == journal.BATCH
    assert source.listed < 4500
    assert sum(task.work().chunks_copied for task in tasks) == 9000 - journal.BATCH


# The plan


def test_the_plan_says_what_happens_to_which_array_and_why(tmp_path: Path) -> None:
    source = large(tmp_path / "a")
    oz.consolidate_metadata(source)
    text = str(oz.jobs.Convert(source, tmp_path / "b").plan())
    assert "from zarr 2 to zarr 3" in text
    assert "chunks kept byte for byte: 3 arrays (/g0/a0, /g0/a2, /g1/a1)" in text
    assert "re-encoded: 1 array (/mixed): zarr 3 cannot express a structure that mixes" in text
    assert "write chunks: read 200 values of " in text
    assert "consolidated metadata is written for /" in text
    assert not (tmp_path / "b").exists()


# Consolidated metadata


@pytest.mark.parametrize("source", [2, 3])
@pytest.mark.parametrize("target", [2, 3])
@pytest.mark.parametrize("wanted", [None, True, False])
@pytest.mark.parametrize("had", [True, False])
def test_consolidated_metadata_is_kept_or_as_requested(
    source: int, target: int, wanted: bool | None, had: bool
) -> None:
    a: dict[str, bytes] = {}
    b: dict[str, bytes] = {}
    group = oz.create_group(a, zarr_format=source, attributes={"a": 1})
    group.create_array("g/x", data=np.arange(3), attributes={"b": 2})
    if had:
        oz.consolidate_metadata(a)
    report = oz.convert(a, b, zarr_format=target, consolidated=wanted)
    expected = had if wanted is None else wanted
    assert report.consolidated == (["/"] if expected else [])
    assert (".zmetadata" in b) == (expected and target == 2)
    assert (b"consolidated_metadata" in b.get("zarr.json", b"")) == (expected and target == 3)
    if expected:
        for key in [k for k in b if k.startswith("g/") and k.endswith((".zarray", "zarr.json"))]:
            del b[key]  # it is not read
        found = oz.open(b, use_consolidated=True)
        assert found["g/x"].attrs["b"] == 2
        assert found.attrs["a"] == 1


def test_formats_without_consolidated_metadata_leave_it_out_or_refuse() -> None:
    a: dict[str, bytes] = {}
    oz.create_group(a).create_array("x", data=[1])
    oz.consolidate_metadata(a)
    assert oz.convert(a, {}, zarr_format="3-draft").consolidated == []
    plan = oz.jobs.Convert(a, {}, zarr_format="3-draft").plan()
    assert any("zarr 3-draft has none" in line for line in plan.decisions)
    with pytest.raises(oz.CannotExpress, match="no consolidated metadata"):
        oz.convert(a, {}, zarr_format="3-draft", consolidated=True)


def test_a_conversion_to_the_same_version_keeps_unknown_fields() -> None:
    a: dict[str, bytes] = {}
    b: dict[str, bytes] = {}
    oz.create_array(a, data=[1, 2])
    a["zarr.json"] = a["zarr.json"].replace(
        b'"node_type"', b'"mine": {"must_understand": false}, "node_type"'
    )
    oz.convert(a, b)
    assert b'"mine"' in b["zarr.json"]


@pytest.mark.parametrize("job", [oz.convert, oz.rechunk])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_server_that_cannot_list_is_read_by_consolidated_metadata(
    job: Callable[..., Any], zarr_format: int, web: Web
) -> None:
    group = oz.create_group(web.values, zarr_format=zarr_format)
    values = np.arange(20)
    group.create_array("x", data=values, chunks=5)
    group.create_array("g/y", shape=20, dtype="i4", chunks=4, fill_value=7)[8:] = values[8:]
    options = {"chunks": 3} if job is oz.rechunk else {"zarr_format": 5 - zarr_format}
    with pytest.raises(StoreError, match="cannot list"):
        job(web.url, {}, **options)
    oz.consolidate_metadata(web.values)
    out: dict[str, bytes] = {}
    report = job(web.url, out, **options)
    assert (report.arrays, report.groups) == (2, 2)
    found = oz.open(out)
    np.testing.assert_array_equal(found["x"][...], values)
    np.testing.assert_array_equal(found["g/y"][...], [7] * 8 + [*range(8, 20)])
    if job is oz.convert:
        assert len([*found["g/y"].stored_chunks()]) == 3
