"""Writing OME-Zarr: levels agree with NumPy, and each block is read once."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk.pyramid import NAMES
from omnizarr.testing import RecordingStore
from tests.bulk.test_pyramid import downsample
from tests.memory import peak
from tests.parallel import together


class Source:
    """An array that counts how often each element was read."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values
        self.shape, self.dtype = values.shape, values.dtype
        self.counts = np.zeros(values.shape, int)

    def __getitem__(self, selection: Any) -> npt.NDArray[Any]:
        self.counts[selection] += 1
        return self.values[selection]


def check_levels(image: oz.ome.Image, values: npt.NDArray[Any], method: str) -> None:
    factors = image.multiscale.metadata["factors"]
    for step, array in zip([None, *factors], image.levels, strict=True):
        values = values if step is None else downsample(values, step, method)
        np.testing.assert_array_equal(array[...], values)


@settings(max_examples=40)
@given(
    method=st.sampled_from(NAMES),
    shape=st.tuples(st.integers(1, 3), st.integers(2, 40), st.integers(2, 40)),
    chunks=st.tuples(st.integers(1, 2), st.integers(2, 9), st.integers(2, 9)),
    shards=st.none() | st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3)),
    factors=st.lists(st.tuples(*[st.integers(1, 3)] * 3), min_size=1, max_size=3),
    unit=st.sampled_from([2**6, 2**10, 2**24]),
)
def test_levels_agree_with_numpy(
    method: str, shape: Any, chunks: Any, shards: Any, factors: Any, unit: int
) -> None:
    values = np.random.default_rng(0).integers(0, 50, shape).astype("u2")
    source = Source(values)
    options = (
        {}
        if shards is None
        else {"shards": tuple(a * b for a, b in zip(shards, chunks, strict=True))}
    )
    store = RecordingStore(oz.storage.MemoryStore())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omnizarr.bulk.pyramid.MEMORY", unit)
        image = oz.ome.write(
            store, source, factors=factors, method=method, chunks=chunks, **options
        )
    check_levels(image, values, method)
    if method != "gaussian":
        assert (source.counts == 1).all()
    stored = Counter(key for call in store.calls if "set" in call.operation for key in call.keys)
    assert {number for key, number in stored.items() if not key.endswith("zarr.json")} <= {1}


@pytest.mark.parametrize("blocks", [(16, 16), (7, 50), (64, 64), (5, 3)])
def test_every_block_of_a_dask_array_is_computed_once(blocks: tuple[int, int]) -> None:
    da = pytest.importorskip("dask.array")
    values = np.arange(60 * 50, dtype="u2").reshape(60, 50)
    computed: Counter[Any] = Counter()

    def block(part: npt.NDArray[Any], block_id: Any = None) -> npt.NDArray[Any]:
        computed[block_id] += 1
        return part

    lazy = da.from_array(values, chunks=blocks).map_blocks(block, meta=values[:0, :0])
    image = oz.ome.write({}, lazy, levels=3, chunks=(8, 8))
    check_levels(image, values, "mean")
    assert set(computed.values()) == {1}


def test_a_memory_map_a_zarr_array_and_an_image_are_sources(tmp_path: Path) -> None:
    values = np.arange(6 * 20 * 30, dtype="u2").reshape(6, 20, 30)
    path = tmp_path / "raw"
    mapped: Any = np.memmap(path, "u2", "w+", shape=values.shape)
    mapped[...] = values
    array = oz.create_array({}, data=values)
    first = oz.ome.write(
        tmp_path / "a.zarr", mapped, scale=(2, 1, 1), unit="nanometer", translation=(5, 0, 0)
    )
    check_levels(first, values, "mean")
    check_levels(oz.ome.write({}, array, levels=2), values, "mean")
    again = oz.ome.write({}, tmp_path / "a.zarr", levels=2, method="max")
    check_levels(again, values, "max")
    assert again.axes == first.axes
    assert again.transform() == first.transform() == oz.ome.Transform((2, 1, 1), (5, 0, 0))


def test_pixels_grow_alike_along_all_axes_of_space() -> None:
    image = oz.ome.write(
        {}, np.zeros((8, 64, 64), "u1"), scale=(4, 1, 1), unit="micrometer", levels=5
    )
    scales = [image.transform(i).scale for i in range(5)]
    assert scales == [(4, 1, 1), (4, 2, 2), (4, 4, 4), (8, 8, 8), (16, 16, 16)]


@pytest.mark.parametrize(("method", "shift"), [("mean", 0.5), ("nearest", None)])
def test_a_coarse_pixel_is_centred_on_the_pixels_it_covers(
    method: str, shift: float | None
) -> None:
    image = oz.ome.write({}, np.zeros((8, 8), "u1"), levels=2, method=method)
    expected = None if shift is None else (shift, shift)
    assert image.transform(1) == oz.ome.Transform((2, 2), expected)


def test_axes_and_colours_are_taken_as_people_write_them() -> None:
    channels = [oz.ome.Channel("a", "#ff0000"), oz.ome.Channel("b", "00FF00")]
    image = oz.ome.write({}, np.zeros((2, 8, 8), "u1"), axes="CYX", channels=channels)
    assert [a.name for a in image.axes] == ["c", "y", "x"]
    assert [c.color for c in image.channels] == ["ff0000", "00FF00"]


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_chunks_may_be_given_by_axis(version: str) -> None:
    image = oz.ome.write(
        {}, np.zeros((3, 20, 30)), axes="cyx", chunks={"y": 8}, levels=2, version=version
    )
    assert [level.chunks for level in image.levels] == [(3, 8, 30), (3, 8, 15)]
    with pytest.raises(oz.InvalidArgument, match="chunks: unknown axis 'z'; axes: y, x"):
        oz.ome.write({}, np.zeros((20, 30)), chunks={"z": 8}, axes="yx", version=version)


def test_nothing_looks_like_an_image_until_it_is_complete() -> None:
    class Broken(Source):
        def __getitem__(self, selection: Any) -> npt.NDArray[Any]:
            raise OSError("the disk is gone")

    store: dict[str, bytes] = {}
    with pytest.raises(OSError, match="the disk is gone"):
        oz.ome.write(store, Broken(np.zeros((8, 8))), levels=2)
    assert store == {}


def test_memory_stays_within_a_few_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (256, 256, 256)
    source = oz.create_array(tmp_path / "s.zarr", shape=shape, dtype="u2", chunks=(32, 64, 64))
    source[...] = 7
    monkeypatch.setattr("omnizarr.bulk.pyramid.MEMORY", 2**20)
    options: Any = {"levels": 4, "chunks": (16, 32, 32), "shards": (32, 64, 64)}
    taken = peak(lambda: oz.ome.write(tmp_path / "t.zarr", source, **options))
    assert taken < source.nbytes / 3
    assert (oz.ome.open(tmp_path / "t.zarr").levels[3][...] == 7).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"axes": "yx"}, "3 axes, but 2 are named"),
        ({"axes": "xxx"}, "contains the same name twice"),
        ({"axes": "zyx", "scale": (1, 2)}, "scale needs a number"),
        ({"axes": "zyx", "scale": 0.5}, "scale needs a number for each of 3 axes, got 0.5"),
        ({"scale": {"q": 2}}, "unknown axis 'q'"),
        ({"unit": "furlong"}, "unknown unit 'furlong'"),
        ({"method": "median"}, "known: mean"),
        ({"version": "0.3"}, "can be read, but not written; use 0.4 or 0.5"),
        ({"version": "7"}, "known: 0.1"),
        ({"factors": 0}, "at least 1"),
        ({"levels": 0}, "at least 1"),
        ({"levels": 3, "names": ["a"]}, "1 names were given for 3 levels"),
        ({"axes": "cyx", "channels": ["a"]}, "got 1 channels, but the data has 4"),
        ({"axes": "cyx", "channels": [{"label": "a"}] * 4}, "channel 0 is {'label': 'a'}; give"),
        ({"axes": "ycx"}, r"pass numpy.transpose\(data, \(1, 0, 2\)\) with axes \['c', 'y', 'x'\]"),
        ({"axes": "zyt"}, "time, then channel, then space"),
        ({"scale": (1, 0, 1)}, "invalid pixel size 0 along 'y'"),
        ({"scale": {"x": float("nan")}}, "invalid pixel size nan along 'x'"),
        (
            {"axes": "cyx", "channels": [oz.ome.Channel("a", "red"), "b", "c", "d"]},
            "invalid colour 'red' of channel 'a'; use six hexadecimal digits",
        ),
    ],
)
def test_invalid_input_is_refused_before_anything_is_written(
    options: dict[str, Any], message: str
) -> None:
    store: dict[str, bytes] = {}
    with pytest.raises((oz.InvalidArgument, oz.InvalidMetadata), match=message):
        oz.ome.write(store, np.zeros((4, 8, 8), "u1"), **options)
    assert store == {}


def test_labels_follow_their_image() -> None:
    store: dict[str, bytes] = {}
    image = oz.ome.write(
        store, np.zeros((2, 6, 20, 30), "u1"), axes="czyx", scale=(1, 3, 1, 1), unit="um", levels=3
    )
    values = np.random.default_rng(0).integers(0, 9, (6, 20, 30)).astype("i4")
    labels = oz.ome.write_labels(
        store, "cells", values, colors={1: (255, 0, 0, 128)}, properties={2: {"area": 5}}
    )
    assert [a.shape for a in labels.levels] == [a.shape[1:] for a in image.levels]
    assert labels.scale == image.scale[1:]
    np.testing.assert_array_equal(labels.levels[1][...], downsample(values, (1, 2, 2), "mode"))
    oz.ome.write_labels(store, "more", np.zeros((1, 20, 30), "u1"), axes="zyx")
    found = oz.ome.open(store)
    assert isinstance(found, oz.ome.Image)
    assert list(found.labels) == ["cells", "more"]
    meaning = found.labels["cells"].label
    assert meaning is not None
    assert meaning.colors == {1: (255, 0, 0, 128)}
    assert meaning.properties == {2: {"area": 5}}
    assert [p for p in oz.ome.validate(store) if p.level == "error"] == []
    with pytest.raises(oz.InvalidArgument, match="labels must be integers"):
        oz.ome.write_labels(store, "floats", np.zeros((6, 20, 30)))
    with pytest.raises(oz.WrongType, match="name of the labels comes before the data, got ndarray"):
        oz.ome.write_labels(store, np.zeros((6, 20, 30), int), "floats")  # type: ignore[arg-type]
    with pytest.raises(oz.InvalidArgument, match="they must be equal"):
        oz.ome.write_labels(store, "short", np.zeros((6, 20, 29), int))


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_a_plate_has_its_wells_and_fields(version: str) -> None:
    store: dict[str, bytes] = {}
    wells = {f"{r}/{c}": [np.full((4, 4), 10 * i + j) for j in range(2)]
             for i, (r, c) in enumerate([("A", "10"), ("B", "2")])}  # fmt: skip
    oz.ome.write_plate(store, wells, name="screen", version=version, unit="um")
    plate = oz.ome.open(store)
    assert isinstance(plate, oz.ome.Plate)
    assert (plate.rows, plate.columns) == (("A", "B"), ("2", "10"))
    assert list(plate) == ["A/10", "B/2"]
    for well, fields in wells.items():
        for i, values in enumerate(fields):
            np.testing.assert_array_equal(plate[well][i].read(), values)
    assert oz.ome.validate(store) == []
    with pytest.raises(oz.NodeNotFound, match="has no well 'C/1'"):
        plate["C/1"]
    with pytest.raises(oz.InvalidArgument, match="no column '2'"):
        oz.ome.write_plate({}, wells, columns=["10"])


def test_labels_that_threads_write_at_once_are_all_listed(tmp_path: Path) -> None:
    oz.ome.write(tmp_path, np.zeros((8, 8), "u1"), levels=1)
    oz.ome.write_labels(tmp_path, "first", np.zeros((8, 8), "u1"))
    names = [f"l{i}" for i in range(8)]
    labels = np.zeros((8, 8), "u1")
    together(*(partial(oz.ome.write_labels, tmp_path, name, labels) for name in names))
    image = oz.ome.open(tmp_path)
    assert isinstance(image, oz.ome.Image)
    assert sorted(image.labels) == ["first", *names]


@pytest.mark.parametrize(
    "keys",
    [
        {"chunk_key_encoding": "."},
        {"chunk_key_encoding": {"name": "v2"}},
        {"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}},
    ],
    ids=str,
)
def test_version_0_4_is_not_written_with_dots_in_its_keys(keys: Any) -> None:
    """B2: OME-Zarr 0.4 has chunk keys with "/"; nothing is created if others are requested."""
    store: dict[str, bytes] = {}
    data = np.ones((8, 8), "u1")
    with pytest.raises(oz.InvalidArgument, match=r"0\.4 requires the separator '/', not '\.'"):
        oz.ome.write(store, data, version="0.4", **keys)
    with pytest.raises(oz.InvalidArgument, match=r"0\.4 requires the separator '/', not '\.'"):
        oz.ome.write_plate(store, {"A/1": [data]}, version="0.4", **keys)
    assert not [k for k in store if k.endswith(".zarray")]
    oz.ome.write(store, data, version="0.4", overwrite=True)
    with pytest.raises(oz.InvalidArgument, match=r"0\.4 requires the separator '/', not '\.'"):
        oz.ome.write_labels(store, "cells", data, **keys)
    assert not [p for p in oz.ome.validate(store) if p.level == "error"]
    oz.ome.write({}, data, version="0.5", **keys)


def test_validate_reports_dots_in_the_keys_of_0_4() -> None:
    """B2: files of other writers are read, and `validate` reports the problem."""
    store: dict[str, bytes] = {}
    oz.ome.write(store, np.arange(16, dtype="u1").reshape(4, 4), version="0.4", levels=1)
    oz.open(store, "r+").create_array(
        "0", data=np.arange(16, dtype="u1").reshape(4, 4), overwrite=True, chunk_key_encoding="."
    )
    [problem] = [p for p in oz.ome.validate(store) if p.level == "error"]
    assert (problem.key, problem.field) == ("0/.zarray", "dimension_separator")
    image = oz.ome.open(store)
    assert isinstance(image, oz.ome.Image)
    assert image.read().tolist() == np.arange(16).reshape(4, 4).tolist()


LENGTHS = {"t": 2, "c": 3, "z": 5, "y": 24, "x": 20}
Store = dict[str, bytes]


@st.composite
def images(draw: st.DrawFn) -> Store:
    """Return an image with any axes, channels, labels and attributes."""
    axes = "".join(a for a in "tcz" if draw(st.booleans())) + "yx"
    store: Store = {}
    values = np.random.default_rng(0).integers(0, 99, [LENGTHS[a] for a in axes]).astype("u2")
    colours = draw(st.lists(st.sampled_from(["FF0000", "00FF00", "112233"]), min_size=3))
    channels = [oz.ome.Channel(f"dye {i}", c, active=i == 0) for i, c in enumerate(colours)]
    image = oz.ome.write(
        store, values, axes=axes, scale={"y": 0.5, "x": 0.25}, unit={"y": "foot", "x": "yard"},
        translation={"x": draw(st.sampled_from([0, 3.5]))}, levels=draw(st.integers(1, 3)),
        name=draw(st.sampled_from(["cells", "a/b"])), version=draw(st.sampled_from(["0.4", "0.5"])),
        channels=channels[:3] if "c" in axes else None,
    )  # fmt: skip
    image.group.attrs["mine"] = {"a": [1]}
    for name in draw(st.lists(st.sampled_from(["nuclei", "deep/cells"]), unique=True)):
        own = "".join(a for a in axes if a != "c" and (a in "yx" or draw(st.booleans())))
        labels = oz.ome.write_labels(
            store, name, values[tuple(slice(None) if a in own else 0 for a in axes)], axes=own,
            colors={1: (1, 2, 3, 4)}, properties={1: {"kind": "round"}},
            method=draw(st.sampled_from(["mode", "nearest"])),
        )  # fmt: skip
        labels.group.attrs["theirs"] = 1
    return store


def same(new: oz.ome.Image, old: oz.ome.Image, levels: int) -> None:
    """Raise if a part of an image is missing in another one, or its labels have other levels."""
    assert new.name == old.name
    assert (new.axes, new.transform()) == (old.axes, old.transform())
    assert (new.channels, [*new.labels]) == (old.channels, [*old.labels])
    np.testing.assert_array_equal(new.read(), old.read())
    assert len(new.levels) == levels
    plain = {"mine", "theirs"} & old.group.attrs.keys()
    assert all(new.group.attrs[name] == old.group.attrs[name] for name in plain)
    if old.label is not None:
        assert new.label == old.label
        values = old.read()
        names = [a.name for a in new.axes]
        for level in new.levels[1:]:
            step = [round(n / m) for n, m in zip(values.shape, level.shape, strict=True)]
            values = downsample(values, step, new.multiscale.type or "")
            np.testing.assert_array_equal(level[...], values, str(names))
    for name, labels in old.labels.items():
        same(new.labels[name], labels, levels)


@settings(max_examples=30, deadline=None)
@given(store=images(), levels=st.integers(1, 3), way=st.sampled_from(["write", "pyramid"]))
def test_a_new_image_has_all_that_the_old_one_has(store: Store, levels: int, way: str) -> None:
    out: Store = {}
    old = oz.ome.open(store)
    if way == "write":
        oz.ome.write(out, old, levels=levels, version=old.version)
    else:
        assert oz.pyramid(old, out, levels=levels).skipped == {}
    same(oz.ome.open(out), old, levels)
    assert oz.ome.validate(out) == oz.ome.validate(store)


@settings(max_examples=20, deadline=None)
@given(store=images(), levels=st.integers(1, 4))
def test_labels_get_the_levels_that_their_image_gets(store: Store, levels: int) -> None:
    copy = dict(store)
    oz.pyramid(copy, levels=levels)
    old = oz.ome.open(store)
    same(oz.ome.open(copy), old, max(levels, len(old.levels)))
    assert oz.ome.validate(copy) == oz.ome.validate(store)
    assert oz.pyramid(copy, levels=levels).arrays == 0


def test_shapes_of_an_image_are_for_its_labels_too() -> None:
    store: Store = {}
    oz.ome.write(store, np.zeros((2, 3, 40, 40), "u2"), axes="czyx", levels=1)
    oz.ome.write_labels(store, "cells", np.zeros((3, 40, 40), "u1"))
    shapes: dict[str, Any] = {"chunks": (1, 2, 10, 20), "shards": (2, 2, 20, 20)}
    for options in (shapes, {"chunks": shapes["chunks"], "shards": {"shape": shapes["shards"]}}):
        for out in (oz.ome.write({}, oz.ome.open(store), **options).store, dict[str, bytes]()):
            if isinstance(out, dict):
                oz.pyramid(oz.ome.open(store), out, options=options)
            labels = oz.ome.open(out).labels["cells"].levels[0]
            assert (labels.chunks, labels.shards) == ((2, 10, 20), (2, 20, 20))


def test_what_is_not_part_of_an_image_is_named(tmp_path: Path) -> None:
    image = oz.ome.write(tmp_path / "a.zarr", np.zeros((40, 40), "u2"), axes="yx")
    image.group.create_group("tables")
    with pytest.warns(oz.OmnizarrWarning, match="not part of the image /, and not written: tables"):
        oz.ome.write({}, image)
    report = oz.pyramid(image, tmp_path / "b.zarr")
    assert report.skipped == {"tables": "it is not part of the image"}
