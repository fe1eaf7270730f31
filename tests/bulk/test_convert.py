"""Conversion between all formats: values agree, and bytes are kept if possible."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

import omnizarr as oz
from tests.golden import archives

FORMATS: tuple[int | str, ...] = (1, 2, "3-draft", 3)
ARRAYS: dict[str, dict[str, object]] = {
    "plain": {"data": np.arange(60, dtype="<i4").reshape(10, 6)},
    "big": {"data": np.arange(60, dtype=">f8").reshape(10, 6), "order": "F"},
    "zlib": {
        "data": np.arange(60, dtype="<u2").reshape(10, 6),
        "compressors": oz.codecs.Zlib(level=1),
    },
    "time": {"data": np.arange(60).reshape(10, 6).astype("M8[ns]")},
    "text": {"data": np.arange(60).reshape(10, 6).astype("U3"), "fill_value": "x"},
    "bytes": {"data": np.arange(60).reshape(10, 6).astype("S3"), "fill_value": b"y"},
    "struct": {"data": np.full((10, 6), 7, [("a", "<i4"), ("b", "<f8")])},
    "nan": {"data": np.full((10, 6), 2.5, "f4"), "fill_value": np.nan},
}


def fresh(store: object, zarr_format: int | str, name: str, **other: object) -> oz.Array:
    options = {**ARRAYS[name], **other}
    data = np.asarray(options.pop("data"))
    return oz.create_array(
        store,
        shape=data.shape,
        dtype=data.dtype,
        chunks=(4, 5),
        zarr_format=zarr_format,
        attributes={"n": name},
        dimension_names=["y", "x"],
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.shows("GEO-16")
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
def test_values_fill_and_attributes_survive(
    name: str, source: int | str, target: int | str
) -> None:
    data = np.asarray(ARRAYS[name]["data"])
    a: dict[str, bytes] = {}
    b: dict[str, bytes] = {}
    # Version 1 cannot express the fill value of text, nor "not a time".
    inexpressible = data.dtype.kind in "SUM" and 1 in (source, target)
    plain = {"fill_value": np.zeros((), data.dtype)[()]} if inexpressible else {}
    fresh(a, source, name, **plain)[0:8] = data[0:8]
    before = dict(a)
    report = oz.convert(a, b, zarr_format=target, checksum=True)
    assert a == before
    assert report.left_out == {}
    old, new = oz.open(a), oz.open(b)
    assert new.zarr_format == target
    assert (new.shape, new.chunks, new.dimension_names) == (old.shape, old.chunks, ("y", "x"))
    assert new.attrs["n"] == name
    assert new[...].astype(data.dtype).tobytes() == old[...].astype(data.dtype).tobytes()
    assert report.arrays == 1
    # Without a fill value, which would be missing values, all chunks are stored.
    stored_chunks = 6 if new.fill_value is None and old.fill_value is not None else 4
    assert report.chunks_copied + report.chunks_encoded == stored_chunks
    if report.chunks_copied:
        stored = [{k: s.store.get(s.chunk_key(k)) for k in np.ndindex(3, 2)} for s in (old, new)]
        assert stored[0] == stored[1]


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("target", [2, 3])
def test_simple_arrays_are_copied_byte_for_byte(source: int | str, target: int | str) -> None:
    a: dict[str, bytes] = {}
    fresh(a, source, "plain")[...] = np.asarray(ARRAYS["plain"]["data"])
    assert oz.convert(a, {}, zarr_format=target).chunks_encoded == 0


def test_the_draft_s_shards_are_unpacked() -> None:
    source = {
        k: v
        for k, v in archives.store(archives.DRAFT, "store").values.items()
        if "shard" in k or k == "zarr.json"
    }
    target: dict[str, bytes] = {}
    with pytest.warns(oz.OmnizarrWarning, match="earlier state"):
        report = oz.convert(source, target, zarr_format=3)
    assert list(report.encoded) == ["/shard/indexed"]
    found = oz.open(target)["shard/indexed"][...]
    assert archives.equal(found, archives.expected(archives.DRAFT, "shard/indexed"))


@pytest.mark.shows("V2-69", "ZEP-03")
@pytest.mark.parametrize(("source", "target"), [(1, 2), (1, 3), (2, 3)])
def test_converting_in_place_writes_only_metadata(
    in_tmp: Path, source: int | str, target: int | str
) -> None:
    fresh("x.zarr", source, "big")[...] = np.asarray(ARRAYS["big"]["data"])
    chunks = {p: (p.read_bytes(), os.stat(p).st_mtime_ns) for p in Path("x.zarr").glob("[0-9]*")}
    assert len(chunks) == 6
    oz.convert("x.zarr", in_place=True, zarr_format=target)
    assert {p: (p.read_bytes(), os.stat(p).st_mtime_ns) for p in chunks} == chunks
    new = oz.open("x.zarr", zarr_format=target)
    assert np.array_equal(new[...], np.asarray(ARRAYS["big"]["data"]))


@pytest.mark.shows("ZEP-06")
def test_an_inexpressible_array_is_refused_before_anything_is_written(in_tmp: Path) -> None:
    group = oz.create_group("x.zarr", zarr_format=2)
    group.create_array("fine", data=np.arange(4))
    objects = np.array([{"a": 1}], object)
    group.create_array("odd", data=objects, dtype=object, filters=[numcodecs.JSON()])
    before = sorted(Path("x.zarr").rglob("*"))
    with pytest.raises(oz.CannotExpress, match="/odd"):
        oz.convert("x.zarr", in_place=True, zarr_format=3)
    with pytest.raises(oz.CannotExpress, match="/odd"):
        oz.convert("x.zarr", "y.zarr", zarr_format=3)
    assert sorted(Path("x.zarr").rglob("*")) == before
    assert not Path("y.zarr").exists()


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        ("x.zarr/a", "x.zarr"),
        ("x.zarr", "x.zarr/copy"),
        ("x.zarr/a", "link.zarr"),
        ("link.zarr", "x.zarr"),
        ("link.zarr/a", "x.zarr"),
    ],
)
def test_converting_into_or_over_the_source_is_refused_and_loses_nothing(
    in_tmp: Path, source: str, destination: str
) -> None:
    oz.create_group("x.zarr").create_array("a", data=np.arange(5))
    Path("link.zarr").symlink_to("x.zarr")
    before = sorted(Path("x.zarr").rglob("*"))
    with pytest.raises(oz.StoreError, match=r"both|one is inside the other"):
        oz.convert(source, destination, zarr_format=3, overwrite=True)
    assert sorted(Path("x.zarr").rglob("*")) == before
    assert oz.open("x.zarr")["a"][...].tolist() == [0, 1, 2, 3, 4]


def test_an_array_with_an_unknown_codec_is_copied_but_not_given_a_name_it_does_not_have() -> None:
    a: dict[str, bytes] = {}
    b: dict[str, bytes] = {}
    oz.create_array(a, data=np.arange(4), zarr_format=2, compressors=None)
    a[".zarray"] = a[".zarray"].replace(b'"compressor": null', b'"compressor": {"id": "lz5"}')
    oz.convert(a, b, zarr_format=2)
    assert b["0"] == a["0"]
    with pytest.raises(oz.UnknownExtension, match="lz5"):
        oz.open(b, kind="array")[...]
    with pytest.raises(oz.OmnizarrError, match="lz5"):
        oz.convert(a, {}, zarr_format=3)


def test_chunks_written_to_another_grid_are_counted_and_reported() -> None:
    data = np.arange(40).reshape(4, 10)
    source: dict[str, bytes] = {}
    oz.create_array(source, data=data, chunks=[[1, 3], [3, 5, 2]])
    target: dict[str, bytes] = {}
    report = oz.convert(source, target, zarr_format=2, progress=str)
    assert np.array_equal(oz.open(target)[...], data)
    assert report.chunks == report.chunks_total == 1  # of the new grid
    assert report.bytes_written == sum(len(v) for k, v in target.items() if not k.startswith("."))


DELTA = {"name": "numcodecs.delta", "configuration": {"dtype": "<f4"}}


def with_checksums(**options: Any) -> dict[str, bytes]:
    """Return an array of floats stored as differences: re-encoding changes bits."""
    store: dict[str, bytes] = {}
    data = np.random.default_rng(0).normal(size=8).astype("f4")
    oz.create_array(store, data=data, chunks=3, filters=[DELTA], **options)
    return store


@pytest.mark.parametrize(
    ("compressors", "left_out"),
    [
        (["gzip", "crc32c"], "crc32c"),
        (["crc32c", "gzip"], "crc32c"),
        (["gzip", "crc32c", "crc32c"], "crc32c, crc32c"),
        (["gzip", {"id": "adler32"}], "adler32"),
        ([{"name": "zstd", "configuration": {"level": 3, "checksum": True}}], "checksum of zstd"),
        (["gzip"], None),
    ],
    ids=str,
)
@pytest.mark.parametrize("source", [2, 3])
def test_version_2_is_written_without_checksums_and_reported(
    compressors: list[Any], left_out: str | None, source: int
) -> None:
    """B1: no value changes, not even by re-encoding with a lossy filter."""
    a = with_checksums(compressors=compressors, zarr_format=source)
    b: dict[str, bytes] = {}
    report = oz.convert(a, b, zarr_format=2)
    assert report.left_out == ({} if left_out is None else {"/": left_out})
    assert (report.chunks_copied, report.chunks_encoded) == (3, 0)
    assert oz.open(b)[...].tobytes() == oz.open(a)[...].tobytes()
    document = json.loads(b[".zarray"])
    assert document["compressor"]["id"] in ("gzip", "zstd")
    assert "checksum" not in document["compressor"]
    assert [f["id"] for f in document["filters"]] == ["delta"]


def test_checksums_are_kept_in_version_2_on_request() -> None:
    a, b, c = with_checksums(), {}, {}  # type: dict[str, bytes], dict[str, bytes], dict[str, bytes]
    assert oz.convert(a, b, zarr_format=2, checksum=True).left_out == {}
    assert [f["id"] for f in json.loads(b[".zarray"])["filters"]] == ["delta", "blosc", "crc32c"]
    assert oz.convert(b, c, zarr_format=3).left_out == {}
    assert c == a


def test_a_checksum_is_checked_before_it_is_left_out() -> None:
    """B1: a damaged chunk must not look valid."""
    a = with_checksums()
    a["c/1"] = a["c/1"][:-5] + bytes([a["c/1"][-5] ^ 1]) + a["c/1"][-4:]
    with pytest.raises(oz.ChunkError, match=r"chunk \(1,\) of /.*crc32c"):
        oz.convert(a, {}, zarr_format=2)


def test_converting_checksummed_chunks_in_place_needs_a_request() -> None:
    """B1: metadata without the checksum would not describe the chunks."""
    keys = {"name": "v2", "separator": "."}
    a = with_checksums(chunk_key_encoding=keys)
    before = dict(a)
    with pytest.raises(oz.CannotExpress, match=r"crc32c.*checksum=True"):
        oz.convert(a, zarr_format=2, in_place=True)
    assert a == before
    oz.convert(a, zarr_format=2, in_place=True, checksum=True)
    del a["zarr.json"]
    assert oz.open(a)[...].tobytes() == oz.open(before)[...].tobytes()


@pytest.mark.parametrize("separator", [None, ".", "/"])
def test_a_nested_directory_reads_what_was_converted_into_it(
    tmp_path: Path, separator: str | None
) -> None:
    """Without a stated separator the keys of such a store are nested; they were not found."""
    fresh(source := oz.storage.MemoryStore(), 2, "plain")[...] = ARRAYS["plain"]["data"]
    nested = oz.storage.NestedDirectoryStore(tmp_path / "a.zarr")
    oz.convert(source, nested, zarr_format=2, dimension_separator=separator)
    np.testing.assert_array_equal(oz.open(nested)[...], ARRAYS["plain"]["data"])
    found = oz.open(tmp_path / "a.zarr")
    np.testing.assert_array_equal(found[...], ARRAYS["plain"]["data"])


def test_files_that_are_not_zarr_are_named(tmp_path: Path) -> None:
    oz.create_group(tmp_path / "s").create_array("g/x", data=[1, 2, 3])
    (tmp_path / "s/g/points.parquet").mkdir()  # as spatialdata has them
    (tmp_path / "s/g/points.parquet/part.0.parquet").write_bytes(b"PAR1")
    (tmp_path / "s/README").write_text("about the data")
    with pytest.warns(oz.OmnizarrWarning, match=r"not Zarr: 'README', 'g/points.parquet/'"):
        report = oz.convert(tmp_path / "s", tmp_path / "t", zarr_format=2)
    assert report.foreign == ["README", "g/points.parquet/"]
    assert oz.open(tmp_path / "t")["g/x"][:].tolist() == [1, 2, 3]
