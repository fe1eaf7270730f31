"""Everything that an image has is in the image that is written from it, or is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk.pyramid import downsample

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
