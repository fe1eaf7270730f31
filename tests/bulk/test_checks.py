"""Damage to stored chunks is found and named at the depth that can see it; reports have limits."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk import checks
from omnizarr.bulk import verify as verifying
from omnizarr.bulk.checks import KINDS, Finding, VerifyReport
from omnizarr.errors import Problem
from omnizarr.hierarchy.chunks import stored_keys
from omnizarr.storage_transformers import stored_key
from omnizarr.stores import LocalStore, MemoryStore, Store

CODECS: list[dict[str, Any]] = [
    {},
    {"compressors": None},
    {"compressors": "zstd"},
    {"compressors": "gzip"},
]
LAYOUTS: list[tuple[Any, dict[str, Any]]] = [
    *itertools.product([1, 2, "3-draft", 3], CODECS[:2]),
    *itertools.product([2, 3], CODECS[2:]),
    (3, {"shards": (12, 8)}),
    (3, {"shards": (12, 8), "compressors": None}),
    (3, {"order": "F"}),
]
PACKED: tuple[Any, dict[str, Any]] = ("3-draft", {"shards": (12, 8)})


def make(store: Any, zarr_format: Any, options: dict[str, Any]) -> oz.Array:
    """Return an array of 5 by 4 chunks; those at the ends reach beyond the shape."""
    array = oz.create_array(
        store, shape=(18, 15), chunks=(4, 4), dtype="i4", zarr_format=zarr_format, **options
    )
    array[...] = np.arange(1, 271).reshape(18, 15)
    return array


def chunk_keys(array: oz.Array) -> list[str]:
    return sorted(key for _, key in chunks_of(array))


def chunks_of(array: oz.Array) -> list[tuple[tuple[int, ...], str]]:
    bound = array._bound
    found = [(coords, stored_key(bound.chunk_store, key)) for coords, key in stored_keys(bound)]
    return sorted({key: (coords, key) for coords, key in found}.values())


def bad_values(store: Store, array: oz.Array) -> set[str]:
    """Return the keys whose chunks the reference engine cannot read, one by one."""
    found = set()
    with oz.configure(engine="reference"):
        bound = array._bound
        for coords, key in chunks_of(array):
            data = store.get(key)
            assert data is not None
            try:
                bound.pipeline_at(coords).decode(data)
            except oz.OmnizarrError:
                found.add(key)
    return found


@pytest.mark.parametrize("engine", ["auto", "reference"])
@given(st.data())
def test_any_damage_is_found_as_the_reference_engine_finds_it(engine: Any, data: Any) -> None:
    """Flipped bits, cut and longer values: exactly the chunks that cannot be decoded."""
    zarr_format, options = data.draw(st.sampled_from(LAYOUTS))
    store = MemoryStore()
    array = make(store, zarr_format, options)
    every = chunk_keys(array)
    for key in data.draw(st.lists(st.sampled_from(every), max_size=3, unique=True)):
        value = bytearray(store.get(key) or b"")
        how = data.draw(st.sampled_from(["flip", "cut", "add", "empty"]))
        if how == "flip":
            place = data.draw(st.integers(0, len(value) - 1))
            value[place] ^= 1 << data.draw(st.integers(0, 7))
        elif how == "cut":
            del value[data.draw(st.integers(0, len(value) - 1)) :]
        elif how == "add":
            value += data.draw(st.binary(min_size=1, max_size=4))
        else:
            value.clear()
        store.set(key, bytes(value))
    with oz.configure(engine=engine):
        report = oz.verify(store)
    assert {f.key for f in report.findings} == bad_values(store, array)
    assert {f.kind for f in report.findings} <= {"damaged-chunk"}


@pytest.mark.parametrize("depth", ["checksums", "decode"])
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_flipped_bit_of_data_with_checksums_is_always_found(depth: Any, data: Any) -> None:
    shards = data.draw(st.sampled_from([None, (12, 8)]))
    store = MemoryStore()
    array = make(store, 3, {"shards": shards})
    key = data.draw(st.sampled_from(chunk_keys(array)))
    value = bytearray(store.get(key) or b"")
    value[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    store.set(key, bytes(value))
    report = oz.verify(store, depth=depth)
    assert {f.key for f in report.findings} == {key}
    assert not report.ok


@pytest.mark.parametrize("depth", ["present", "checksums", "decode"])
@given(st.data())
@settings(max_examples=30, deadline=None)
def test_erased_and_added_keys_are_named(depth: Any, data: Any) -> None:
    zarr_format, options = data.draw(st.sampled_from([*LAYOUTS, PACKED]))
    store = MemoryStore()
    array = make(store, zarr_format, options)
    every = chunks_of(array)
    gone = data.draw(st.sets(st.sampled_from([key for _, key in every])))
    for key in gone:
        store.erase(key)
    added = data.draw(st.sets(st.sampled_from(["x", "c/x", "c/0/1/2", "data/root/x", "y.txt"])))
    for key in added:
        store.set(key, b"?")
    report = oz.verify(store, depth=depth, missing="error")
    missing = {f.key for f in report.findings if f.kind == "missing-chunk"}
    orphans = {f.key for f in report.findings if f.kind == "orphan"}
    assert missing == gone
    assert {f.kind for f in report.findings} <= {"missing-chunk", "orphan"}
    if zarr_format == "3-draft":  # keys outside meta/ and data/ are not listed
        added = {key for key in added if key.startswith("data/")}
    assert orphans == added
    assert report.absent == sum(f.kind == "missing-chunk" for f in report.findings)
    assert report.chunks + report.absent == 20


@pytest.mark.parametrize(("run", "slab"), [(1, 1), (128, 256), (2**21, 2**24)])
@pytest.mark.parametrize("shards", [None, (12, 8)])
def test_chunks_are_decoded_in_pieces_of_any_size(
    run: int, slab: int, shards: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "SLAB_BYTES", slab)
    monkeypatch.setattr(checks, "BATCH_BYTES", run)
    monkeypatch.setattr(verifying, "TASK_BYTES", slab)
    array = make(LocalStore(tmp_path), 3, {"shards": shards})
    sound = oz.verify(tmp_path)
    assert (sound.ok, sound.chunks, sound.absent) == (True, 20, 0)
    stored = sum((tmp_path / key).stat().st_size for key in chunk_keys(array))
    assert sound.bytes_read == stored
    file = tmp_path / chunk_keys(array)[-1]
    file.write_bytes(file.read_bytes()[:-1])
    report = oz.verify(tmp_path)
    assert [f.key for f in report.findings] == [str(file.relative_to(tmp_path))]


def test_a_truncated_chunk_at_the_end_of_the_array_is_found(tmp_path: Any) -> None:
    """Reading would not need the missing bytes, which are beyond the shape."""
    array = oz.create_array(tmp_path, shape=(3,), chunks=(8,), dtype="i4", compressors=None)
    array[...] = 1
    file = tmp_path / "c/0"
    file.write_bytes(file.read_bytes()[:-4])
    for depth in ("present", "checksums", "decode"):
        [found] = oz.verify(tmp_path, depth=depth).findings  # type: ignore[arg-type]
        assert found.message == "has 28 bytes, expected 32"


@pytest.mark.parametrize("chunks_of_axis", [[[4, 4, 10], [15]], [[1] * 18, [5, 10]]])
def test_irregular_grids_are_checked(chunks_of_axis: list[list[int]]) -> None:
    store = MemoryStore()
    array = oz.create_array(store, shape=(18, 15), chunks=chunks_of_axis, dtype="i4")
    array[...] = 7
    assert oz.verify(store).ok
    key = chunk_keys(array)[-1]
    store.set(key, b"bad")
    assert [f.key for f in oz.verify(store).findings] == [key]


def test_a_chunk_that_does_not_fit_into_memory_is_reported() -> None:
    store = MemoryStore()
    oz.create_array(store, data=np.ones((6, 4), "i4"), chunks=(6, 4), compressors="gzip")
    document = json.loads(store.get("zarr.json") or b"")
    document["chunk_grid"]["configuration"]["chunk_shape"] = [2**36, 4]  # 1 TiB
    store.set("zarr.json", json.dumps(document).encode())
    (finding,) = oz.verify(store).findings
    assert "cannot be checked: not enough memory" in finding.message


# Reports

some_findings = st.builds(
    Finding,
    path=st.sampled_from(["/", "/a"]),
    key=st.text(max_size=8),
    message=st.text(max_size=8),
    chunk=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    level=st.sampled_from(["error", "warning"]),
    kind=st.sampled_from(KINDS),
    field=st.sampled_from(["", "codecs[1].configuration.level"]),
    rule=st.sampled_from(["", "Zarr 3, codecs"]),
)


@given(st.lists(st.lists(some_findings, max_size=6), max_size=6), st.integers(0, 8))
def test_any_parts_give_the_same_counts_and_at_most_the_limit(
    parts: list[list[Finding]], limit: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "MAX_FINDINGS", limit)
        total = VerifyReport()
        for part in parts:
            report = VerifyReport(chunks=1)
            for finding in part:
                report.add(finding)
            total.merge(VerifyReport.from_json(json.loads(json.dumps(report.to_json()))))
    every = [finding for part in parts for finding in part]
    assert total.chunks == len(parts)
    assert total.errors == sum(f.level == "error" for f in every)
    assert total.warnings == len(every) - total.errors
    assert total.ok == (total.errors == 0)
    for kind in KINDS:
        number = sum(f.kind == kind for f in every)
        assert total.counts.get(kind, 0) == number
        assert sum(f.kind == kind for f in total.findings) == min(number, limit)
        bad = sum(f.kind == kind and f.level == "error" for f in every)
        assert total.error_counts.get(kind, 0) == bad
    assert total.omitted == len(every) - len(total.findings)
    assert VerifyReport.from_json(json.loads(json.dumps(total.to_json()))) == total


def test_a_finding_names_field_pointer_and_rule() -> None:
    problem = Problem("a/zarr.json", "codecs[0].configuration.level", "expected an integer")
    found = Finding.of(problem, "a", "metadata")
    assert found.pointer == "/codecs/0/configuration/level"
    assert str(found) == (
        "/a ('a/zarr.json', codecs[0].configuration.level): expected an integer [Zarr 3, codecs]"
    )
    assert found.to_json()["kind"] == "metadata"


def test_a_damaged_inner_chunk_is_called_as_reading_calls_it() -> None:
    store = MemoryStore()
    array = make(store, 3, {"shards": (12, 8)})
    for key in chunk_keys(array):
        value = bytearray(store.get(key) or b"")
        value[0] ^= 1
        store.set(key, bytes(value))
    (finding, *_) = [f for f in oz.verify(store).findings if f.key == "c/1/0"]
    assert finding.chunk is not None
    place = tuple(slice(c * 4, c * 4 + 4) for c in finding.chunk)
    with pytest.raises(oz.ChunkError) as read:
        array[place]
    inner, _, why = finding.message.partition(" of chunk (1, 0): ")
    where = f"cannot read chunk (1, 0) of / (key 'c/1/0' in {store!r})"
    assert str(read.value) == f"{where}: {inner}: {why}"
