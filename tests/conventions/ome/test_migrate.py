"""Conversion between OME-Zarr 0.4 and 0.5: metadata only if chunks can stay, and undo."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

import omnizarr as oz

ZARR = {"0.4": 2, "0.5": 3}
NAMES = ("zarr.json", ".zattrs", ".zgroup", ".zarray", ".zmetadata")


def documents(store: Mapping[str, bytes]) -> dict[str, Any]:
    return {k: json.loads(v) for k, v in store.items() if k.rpartition("/")[2] in NAMES}


def chunks(store: Mapping[str, bytes]) -> dict[str, bytes]:
    return {k: v for k, v in store.items() if k.rpartition("/")[2] not in NAMES}


def image(version: str, **options: Any) -> dict[str, bytes]:
    """Return an image with labels and attributes of its own."""
    store: dict[str, bytes] = {}
    values = np.arange(2 * 4 * 20 * 30, dtype="u2").reshape(2, 4, 20, 30)
    options.setdefault("chunks", (1, 4, 8, 8))
    oz.ome.write(
        store, values, axes="czyx", scale=(1, 3, 1, 1), unit="um", levels=2, channels=["a", "b"],
        version=version, **options,
    )  # fmt: skip
    oz.ome.write_labels(store, "cells", values[0] % 7, colors={1: (1, 2, 3, 4)})
    oz.open(store, "r+").attrs["mine"] = {"kept": [1, 2]}
    return store


def plate(version: str) -> dict[str, bytes]:
    store: dict[str, bytes] = {}
    field = np.arange(64, dtype="u1").reshape(8, 8)
    wells = {"A/1": [field, field + 1], "B/3": [field]}
    oz.ome.write_plate(store, wells, name="screen", unit="um", version=version)
    return store


def same_values(a: dict[str, bytes], b: dict[str, bytes]) -> None:
    first, second = oz.open(a), oz.open(b)
    paths = {p for p, m in first.members(None) if isinstance(m, oz.Array)}
    assert paths == {p for p, m in second.members(None) if isinstance(m, oz.Array)}
    for path in paths:
        np.testing.assert_array_equal(first[path][...], second[path][...])


@pytest.mark.parametrize("make", [image, plate])
@pytest.mark.parametrize(("version", "other"), [("0.4", "0.5"), ("0.5", "0.4")])
def test_migrating_there_and_back_gives_identical_metadata(
    make: Any, version: str, other: str
) -> None:
    start = make(version)
    there: dict[str, bytes] = {}
    back: dict[str, bytes] = {}
    report = oz.convert(start, there, zarr_format=ZARR[other], checksum=True)
    assert report.chunks_encoded == 0
    assert oz.ome.validate(there) == []
    same_values(start, there)
    oz.convert(there, back, zarr_format=ZARR[version])
    assert documents(back) == documents(start)
    assert chunks(back) == chunks(start)


@pytest.mark.shows("OME-21")
def test_migrating_in_place_writes_only_metadata(tmp_path: Path) -> None:
    folder = tmp_path / "image.zarr"
    for key, value in image("0.4").items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(value)
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}
    old = oz.ome.open(folder)
    assert isinstance(old, oz.ome.Image)
    done = oz.convert(folder, in_place=True)
    assert done.bytes_written == 0
    after = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}
    assert {p: v for p, v in after.items() if p in before} == before
    assert {p.name for p in after.keys() - before.keys()} == {"zarr.json"}
    with pytest.warns(oz.OmnizarrWarning, match="zarr 3 and zarr 2; zarr 3 is used"):
        new = oz.ome.open(folder)
    assert isinstance(new, oz.ome.Image)
    assert (old.version, new.version) == ("0.4", "0.5")
    np.testing.assert_array_equal(new.read(), old.read())
    oz.undo_conversion(folder)
    assert {p for p in folder.rglob("*") if p.is_file()} == set(before)


@pytest.mark.shows("OME-22")
def test_metadata_moves_under_ome_and_other_attributes_are_kept() -> None:
    start = image("0.4")
    there: dict[str, bytes] = {}
    oz.convert(start, there)
    old, new = documents(start), documents(there)
    before, after = old[".zattrs"], new["zarr.json"]["attributes"]
    assert before["multiscales"][0]["version"] == "0.4"
    assert set(after) == {"ome", "mine"}
    assert after["mine"] == before["mine"]
    expected = {k: v for k, v in before["multiscales"][0].items() if k != "version"}
    assert after["ome"]["version"] == "0.5"
    assert after["ome"]["multiscales"] == [expected]
    assert after["ome"]["omero"] == {k: v for k, v in before["omero"].items() if k != "version"}
    assert new["0/zarr.json"]["dimension_names"] == ["c", "z", "y", "x"]
    assert new["labels/zarr.json"]["attributes"]["ome"]["labels"] == ["cells"]
    assert new["labels/cells/1/zarr.json"]["dimension_names"] == ["z", "y", "x"]


@pytest.mark.shows("OME-23")
@pytest.mark.parametrize("codec", [numcodecs.Blosc(), numcodecs.GZip(), numcodecs.Zlib(), None])
def test_chunks_that_version_3_can_express_are_kept(codec: Any) -> None:
    start = image("0.4", compressors=codec)
    before = chunks(start)
    oz.convert(start, in_place=True)
    assert chunks(start) == before


@pytest.mark.shows("OME-23")
def test_an_inexpressible_image_is_refused_before_anything_is_written() -> None:
    start = image("0.4")
    group = oz.open(start, "r+")
    group.create_array("other", shape=3, dtype=object, filters=[numcodecs.JSON()])
    before = dict(start)
    for options in ({"in_place": True}, {"destination": {}}):
        with pytest.raises(oz.OmnizarrError, match="/other"):
            oz.convert(start, **options)  # type: ignore[arg-type]
        assert start == before
        assert options.get("destination", {}) == {}


@pytest.mark.shows("OME-24")
def test_migrating_a_sharded_image_back_needs_rewriting_its_data() -> None:
    start = image("0.5", shards=(1, 4, 16, 16))
    before = dict(start)
    with pytest.raises(oz.CannotExpress, match="chunks cannot be kept unchanged"):
        oz.convert(start, zarr_format=2, in_place=True)
    assert start == before
    there: dict[str, bytes] = {}
    report = oz.convert(start, there, zarr_format=2)
    assert set(report.encoded) == {"/0", "/1"}
    same_values(start, there)
    assert oz.ome.validate(there) == []


def test_a_conversion_that_removed_old_metadata_can_be_reversed() -> None:
    start = image("0.4")
    first = documents(start)
    oz.convert(start, in_place=True, remove_old=True)
    assert all(k.endswith("zarr.json") for k in documents(start))
    assert oz.ome.validate(start) == []
    oz.convert(start, zarr_format=2, in_place=True, remove_old=True)
    assert documents(start) == first


DOTS = {"chunk_key_encoding": {"name": "v2", "separator": "."}}


def test_levels_with_dots_in_their_keys_cannot_become_0_4_in_place() -> None:
    """B2: OME-Zarr 0.4 has chunk keys with "/"."""
    start = image("0.5", compressors=["gzip"], **DOTS)
    before = dict(start)
    with pytest.raises(
        oz.CannotExpress, match=r"keys have the separator '\.'.*requires '/'.*destination"
    ):
        oz.convert(start, zarr_format=2, in_place=True)
    assert start == before
    there: dict[str, bytes] = {}
    oz.convert(start, there, zarr_format=2)
    assert oz.ome.validate(there) == []
    same_values(start, there)


def old_image(version: str) -> dict[str, bytes]:
    """Return an image of a version that is only read."""
    store: dict[str, bytes] = {}
    group = oz.create_group(store, zarr_format=2)
    separator = "." if version == "0.1" else "/"
    data = np.arange(64, dtype="u1").reshape(1, 1, 1, 8, 8)
    group.create_array("0", data=data, chunks=(1, 1, 1, 4, 4), chunk_key_encoding=separator)
    axes = {} if version < "0.3" else {"axes": list("tczyx")}
    group.attrs["multiscales"] = [{"version": version, "datasets": [{"path": "0"}], **axes}]
    return store


SOURCES: dict[str, tuple[Any, str, int]] = {
    **{f"image {v}": (image, v, 3 if v == "0.4" else 2) for v in ("0.4", "0.5")},
    **{f"plate {v}": (plate, v, 3 if v == "0.4" else 2) for v in ("0.4", "0.5")},
    **{f"image {v}": (old_image, v, 3) for v in ("0.1", "0.2", "0.3")},
}


@pytest.mark.parametrize("case", SOURCES)
@pytest.mark.parametrize("path", ["", "images/one"])
def test_convert_gives_images_and_plates_the_metadata_of_the_other_zarr(
    case: str, path: str
) -> None:
    """B3: also for images inside of other hierarchies."""
    make, version, zarr_format = SOURCES[case]
    inner = make(version)
    start: dict[str, bytes] = inner
    if path:
        start = {}
        top = oz.create_group(start, zarr_format=5 - zarr_format, attributes={"labels": ["a"]})
        top.create_array("table", data=[1, 2])
        top.create_group("images")
        start |= {f"{path}/{key}": value for key, value in inner.items()}
    there: dict[str, bytes] = {}
    oz.convert(start, there, zarr_format=zarr_format)
    found = oz.ome.validate(there, path)
    assert [str(p) for p in found if p.level == "error"] == []
    same_values(start, there)
    assert not path or oz.open(there).attrs == {"labels": ["a"]}


@pytest.mark.parametrize("change", ["dots", "draft"])
def test_convert_refuses_results_that_are_no_longer_images(change: str) -> None:
    """B2, B3: other chunk keys, and a Zarr version that no OME-Zarr version is based on."""
    there: dict[str, bytes] = {}
    options = {"dots": {"zarr_format": 2, "dimension_separator": "."},
               "draft": {"zarr_format": "3-draft"}}[change]  # fmt: skip
    for version in ("0.4", "0.5"):
        with pytest.raises((oz.InvalidArgument, oz.CannotExpress), match=r"OME-Zarr"):
            oz.convert(image(version), there, **options)  # type: ignore[arg-type]
    assert there == {}


def test_convert_names_all_images_that_cannot_be_expressed() -> None:
    start: dict[str, bytes] = {}
    top = oz.create_group(start, zarr_format=3)
    top.create_array("between/table", data=[1, 2])
    for name in ("a", "b/c", "d"):
        start |= {f"{name}/{key}": value for key, value in image("0.5", **DOTS).items()}
    top.create_group("b")
    for options in ({"zarr_format": "3-draft"}, {"zarr_format": 2, "in_place": True}):
        before = dict(start)
        with pytest.raises(oz.CannotExpress, match=r"3 nodes.*nothing was written") as error:
            oz.convert(start, None if "in_place" in options else {}, **options)  # type: ignore[arg-type]
        assert [problem.key for problem in error.value.problems] == ["/a", "/b/c", "/d"]
        assert start == before
    there: dict[str, bytes] = {}
    oz.convert(start, there, zarr_format=2)
    for name in ("a", "b/c", "d"):
        assert oz.ome.validate(there, name) == []


@pytest.mark.parametrize(
    "attributes",
    [
        {"multiscales": [{"datasets": [{"path": "0", "crs": "EPSG:3857"}], "type": "reduce"}]},
        {"multiscales": {"layout": [{"asset": "0"}]}},
        {"labels": ["a", "b"]},
        {"ome": "not an object"},
    ],
)
def test_convert_leaves_attributes_that_only_look_like_an_image(attributes: Any) -> None:
    """B3: pyramids of maps have `multiscales` too."""
    start: dict[str, bytes] = {}
    there: dict[str, bytes] = {}
    group = oz.create_group(start, zarr_format=2, attributes=attributes)
    group.create_array("0", data=np.ones((4, 4)))
    oz.convert(start, there, zarr_format=3)
    assert oz.open(there).attrs == attributes
