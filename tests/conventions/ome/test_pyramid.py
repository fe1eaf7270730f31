"""The job that writes pyramids: the same levels as `ome.write`, resumed, and added to images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk.pyramid import NAMES, ReduceBox
from omnizarr.conventions.ome.pyramid import BuildPyramid


def _image(shape: tuple[int, ...], dtype: str = "u2", seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 200, shape).astype(dtype)


@given(
    shape=st.lists(st.integers(1, 40), min_size=2, max_size=3).map(tuple),
    chunk=st.integers(1, 16),
    method=st.sampled_from(NAMES),
    dtype=st.sampled_from(["u1", "i4", "f4", "f8"]),
    levels=st.integers(1, 4),
    memory=st.sampled_from([1, 5_000, 10**6]),
)
def test_levels_are_those_of_ome_write(
    shape: Any, chunk: int, method: str, dtype: str, levels: int, memory: int
) -> None:
    values = _image(shape, dtype)
    source = oz.create_array({}, data=values, chunks=chunk)
    out: dict[str, bytes] = {}
    options: dict[str, Any] = {"levels": levels, "method": method}
    oz.pyramid(source, out, memory=memory, options={"chunks": chunk}, workers=1, **options)
    found = oz.ome.open(out)
    expected = oz.ome.write({}, values, chunks=chunk, **options)
    for one, other in zip(found.levels, expected.levels, strict=True):
        np.testing.assert_allclose(one[...], other[...], rtol=1e-6)
        assert one.chunks == other.chunks
    assert found.multiscale.datasets == expected.multiscale.datasets


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("method", [None, "max"])
def test_levels_are_added_to_an_image(tmp_path: Path, version: str, method: str | None) -> None:
    values = _image((5, 300, 400))
    channels = oz.ome.write(
        tmp_path / "a.zarr", values, axes="cyx", scale=(1, 0.5, 0.5), unit="micrometer",
        channels=list("abcde"), levels=2, version=version, method="nearest", chunks=(1, 100, 100),
    ).channels  # fmt: skip
    report = oz.pyramid(tmp_path / "a.zarr", levels=4, method=method)
    assert report.arrays == 2
    image = oz.ome.open(tmp_path / "a.zarr")
    assert [p for p in oz.ome.validate(tmp_path / "a.zarr") if p.level == "error"] == []
    assert [level.shape[1:] for level in image.levels] == [
        (300, 400),
        (150, 200),
        (75, 100),
        (38, 50),
    ]
    assert image.channels == channels
    assert image.levels[3].chunks == (1, 38, 50)
    assert image.multiscale.type == ("nearest" if method is None else None)
    if method is None:  # that of the image
        np.testing.assert_array_equal(image.levels[3][...], values[:, ::8, ::8])
        whole = oz.ome.write(
            {}, values, axes="cyx", scale=(1, 0.5, 0.5), method="nearest", levels=4
        )
        assert image.multiscale.datasets == whole.multiscale.datasets
    else:
        fine = image.levels[1][...]
        blocks = fine[:, :, :].reshape(5, 75, 2, 100, 2)
        np.testing.assert_array_equal(image.levels[2][...], blocks.max((2, 4)))
    assert oz.pyramid(tmp_path / "a.zarr", levels=4).arrays == 0


def test_an_array_alone_needs_a_destination(tmp_path: Path) -> None:
    oz.create_array(tmp_path / "a.zarr", data=np.zeros((5, 5)))
    with pytest.raises(oz.InvalidArgument, match="is an array, not an image"):
        oz.pyramid(tmp_path / "a.zarr")
    with pytest.raises(oz.StoreError, match="leave the destination out"):
        oz.pyramid(tmp_path / "a.zarr", tmp_path / "a.zarr")


@pytest.mark.parametrize("added", [False, True])
def test_an_interrupted_pyramid_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: bool
) -> None:
    values = _image((400, 400))
    if added:
        oz.ome.write(tmp_path / "a.zarr", values, levels=1, chunks=(50, 50))
        job = BuildPyramid(str(tmp_path / "a.zarr"), levels=4, memory=50_000)
    else:
        oz.create_array(tmp_path / "source.zarr", data=values)
        options = {"chunks": (50, 50)}
        job = BuildPyramid(
            str(tmp_path / "source.zarr"), str(tmp_path / "a.zarr"), levels=4, memory=50_000,
            options=options,
        )  # fmt: skip
    calls: list[Any] = []
    real = ReduceBox.__call__

    def failing(self: ReduceBox) -> Any:
        calls.append(self)
        if len(calls) == 7:
            raise oz.StoreError("the disk is gone")
        return real(self)

    monkeypatch.setattr(ReduceBox, "__call__", failing)
    with pytest.raises(oz.StoreError, match="the disk is gone"):
        oz.run(job, workers=1)
    if added:
        assert len(oz.ome.open(tmp_path / "a.zarr").levels) == 1
    else:
        with pytest.raises(oz.NodeNotFound):
            oz.open(tmp_path / "a.zarr")
    oz.run(job, workers=1, resume=True)
    image = oz.ome.open(tmp_path / "a.zarr")
    for one, other in zip(image.levels, oz.ome.write({}, values, levels=4).levels, strict=True):
        np.testing.assert_array_equal(one[...], other[...])
    assert not [p for p in (tmp_path / "a.zarr").rglob("*") if "journal" in str(p) and p.is_file()]


def test_dimension_names_are_axes_and_a_plan_shows_the_levels(tmp_path: Path) -> None:
    oz.create_array(
        tmp_path / "a.zarr", data=_image((3, 600, 600)), dimension_names=("c", "y", "x")
    )
    job = BuildPyramid(str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"))
    text = str(job.plan())
    assert "/1: (3, 300, 300), mean" in text
    assert "phase 2: level 1: 1 task" in text
    oz.run(job)
    assert [a.name for a in oz.ome.open(tmp_path / "b.zarr").axes] == ["c", "y", "x"]
