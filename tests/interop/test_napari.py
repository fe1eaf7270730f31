"""The reader for napari is found by its manifest, is lazy, and follows the OME-Zarr metadata.

napari itself is not needed: npe2 finds and runs readers as napari does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.engine import chunk_cache
from omnizarr.interop.napari import LazyArray, get_reader
from omnizarr.testing import RecordingStore

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # npe2 uses what pydantic calls deprecated
    npe2 = pytest.importorskip("npe2")

Layer = tuple[Any, dict[str, Any], str]
Reader = Callable[[Path | str], list[Layer]]

VALUES = np.random.default_rng(0).integers(0, 4000, (2, 6, 40, 50)).astype("u2")
LABELS = (VALUES[0] % 4).astype("u1")


@pytest.fixture
def reader() -> Reader:
    """Return a function that reads a path as napari does."""
    npe2.PluginManager.instance().discover()

    def read(path: Path | str) -> list[Layer]:
        found: list[Layer] = npe2.read([str(path)], stack=False, plugin_name="omnizarr")
        return found

    return read


def write(path: Path, version: str = "0.5") -> oz.ome.Image:
    image = oz.ome.write(
        path, VALUES, axes="czyx", scale=(1, 0.5, 0.1, 0.1), translation=(0, 3, 2, 1),
        unit="micrometer", levels=3, version=version,
        channels=[
            oz.ome.Channel("nuclei", "00AAFF", {"min": 0, "max": 4095, "start": 10, "end": 900}),
            oz.ome.Channel("membranes", "FF8800", active=False),
        ],
    )  # fmt: skip
    oz.ome.write_labels(
        path, "cells", LABELS, colors={1: (255, 0, 0, 255)},
        properties={1: {"area": 12}, 3: {"area": 7, "kind": "big"}},
    )  # fmt: skip
    return image


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_channels_and_labels_become_layers(tmp_path: Path, reader: Reader, version: str) -> None:
    path = tmp_path / "cells.ome.zarr"
    image = write(path, version)
    nuclei, membranes, labels = reader(path)
    for (levels, options, kind), channel in ((nuclei, 0), (membranes, 1)):
        assert kind == "image"
        assert options["multiscale"]
        for shown, array in zip(levels, image.levels, strict=True):
            assert (shown.shape, shown.dtype, shown.ndim) == (array.shape[1:], array.dtype, 3)
            np.testing.assert_array_equal(np.asarray(shown), array[channel])
            np.testing.assert_array_equal(shown[2, 3:7], array[channel, 2, 3:7])
        assert options["scale"] == [0.5, 0.1, 0.1]
        assert options["translate"] == [3, 2, 1]
        assert options["axis_labels"] == ["z", "y", "x"]
        assert options["units"] == ["micrometer"] * 3
    assert (nuclei[1]["name"], membranes[1]["name"]) == ("nuclei", "membranes")
    assert (nuclei[1]["colormap"], nuclei[1]["contrast_limits"]) == ("#00AAFF", (10, 900))
    assert (nuclei[1]["visible"], membranes[1]["visible"]) == (True, False)
    levels, options, kind = labels
    assert (options["name"], kind) == ("cells", "labels")
    np.testing.assert_array_equal(np.asarray(levels[0]), LABELS)
    assert options["colormap"][1] == [1, 0, 0, 1]
    assert options["features"] == {"index": [1, 3], "area": [12, 7], "kind": [None, "big"]}


def test_an_image_that_says_little_is_shown_all_the_same(tmp_path: Path, reader: Reader) -> None:
    path = tmp_path / "plain.zarr"
    oz.ome.write(path, VALUES[0], axes="zyx", levels=1)
    ((data, options, kind),) = reader(path)
    assert isinstance(data, LazyArray)  # one level is no pyramid
    assert (options["name"], kind, options["units"]) == ("plain.zarr", "image", ["pixel"] * 3)
    assert "contrast_limits" not in options
    two = tmp_path / "two.zarr"
    oz.ome.write(two, VALUES, axes="czyx", levels=2)
    found = [options for _, options, _ in reader(two)]
    assert [options["name"] for options in found] == ["two.zarr 0", "two.zarr 1"]
    assert len({options["colormap"] for options in found}) == 2


def test_the_fields_of_a_well_become_layers_and_plates_are_left_to_others(tmp_path: Path) -> None:
    oz.ome.write_plate(tmp_path, {"A/1": [VALUES[0], VALUES[1]]}, axes="zyx", levels=1)
    assert get_reader(str(tmp_path)) is None
    well = str(tmp_path / "A" / "1")
    read = get_reader(well)
    assert read is not None
    layers = read(well)
    assert [options["name"] for _, options, _ in layers] == ["0", "1"]
    for (data, _, _), values in zip(layers, VALUES, strict=True):
        np.testing.assert_array_equal(np.asarray(data), values)


def test_an_array_of_any_format_is_an_image(tmp_path: Path, reader: Reader) -> None:
    for zarr_format in (1, 2, "3-draft", 3):
        path = tmp_path / f"{zarr_format}.zarr"
        array = oz.create_array(path, shape=(4, 5), dtype="i4", zarr_format=zarr_format)
        array[...] = np.arange(20).reshape(4, 5)
        ((data, options, kind),) = reader(path)
        np.testing.assert_array_equal(np.asarray(data), array[...])
        assert (options, kind) == ({"name": path.name}, "image")
    named = oz.create_array(
        tmp_path / "named.zarr", shape=(4, 5), dtype="i4", dimension_names=["lat", "lon"]
    )
    ((_, options, _),) = reader(tmp_path / "named.zarr")
    assert options["axis_labels"] == named.dimension_names


def test_paths_that_are_not_images_are_left_to_other_readers(tmp_path: Path) -> None:
    oz.create_group(tmp_path / "group.zarr")
    (tmp_path / "empty.zarr").mkdir()
    assert get_reader(str(tmp_path / "group.zarr")) is None
    assert get_reader(str(tmp_path / "empty.zarr")) is None
    assert get_reader(str(tmp_path / "nothing.zarr")) is None
    assert get_reader([str(tmp_path / "group.zarr")]) is None


def test_an_image_that_is_broken_says_why(tmp_path: Path, reader: Reader) -> None:
    path = tmp_path / "broken.zarr"
    oz.create_group(path, attributes={"ome": {"version": "0.5", "multiscales": [{"axes": []}]}})
    with pytest.raises(oz.InvalidMetadata, match="datasets"):
        reader(path)


def test_only_shown_chunks_are_read_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_cache, "WORTH", 0)  # for the small chunks of this test
    store = RecordingStore(oz.storage.MemoryStore())
    values = np.arange(256).reshape(4, 8, 8)
    array = oz.create_array(store, data=values, dtype="u2", chunks=(2, 8, 8))
    store.calls.clear()
    shown = LazyArray(array.view[...])
    assert store.calls == []
    np.testing.assert_array_equal(shown[0], values[0])
    np.testing.assert_array_equal(shown[1, 2:], values[1, 2:])
    read = [key for call in store.calls if "get" in call.operation for key in call.keys]
    # On a busy machine, the metadata are looked at again between the two.
    assert [key for key in read if key != "zarr.json"] == ["c/0/0/0"]
