"""References to TIFF files: equal to tifffile, here and in zarr-python, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.errors import InvalidArgument
from tests.integrations.files.test_references import imagecodecs_registered, read_with_zarr
from tests.integrations.files.tiff_layouts import LAYOUTS, Layout, write_tiff

REFUSED: dict[str, Layout] = {
    "compression is JPEG": ((96, 128), "u1", {"compression": "jpeg", "tile": (16, 16)}),
    "1 bits": LAYOUTS["bits"],
}


@pytest.mark.parametrize("layout", sorted({*LAYOUTS} - {"bits"}))
def test_every_layout_is_read_as_tifffile_reads_it(tmp_path: Path, layout: str) -> None:
    values = write_tiff(tmp_path / "a.tif", LAYOUTS[layout])
    done = oz.reference(tmp_path / "a.tif", tmp_path / "a.json")
    assert done.arrays == 1
    assert not done.skipped
    array = oz.open_array(tmp_path / "a.json")
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "a.tif"), values)
    np.testing.assert_array_equal(array[...], values)
    with imagecodecs_registered():
        np.testing.assert_array_equal(read_with_zarr(tmp_path / "a.json")[...], values)


@pytest.mark.parametrize("layout", REFUSED)
def test_what_has_no_codec_is_refused(tmp_path: Path, layout: str) -> None:
    write_tiff(tmp_path / "a.tif", REFUSED[layout])
    with pytest.raises(InvalidArgument, match=layout):
        oz.reference(tmp_path / "a.tif", tmp_path / "a.json")


def test_several_series_are_members(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        one = np.arange(600, dtype="u2").reshape(20, 30)
        two = np.arange(400, dtype="f4").reshape(4, 10, 10)
        file.write(one, photometric="minisblack")
        file.write(two, photometric="minisblack", compression="zlib")
        file.write(one.astype("u1"), photometric="minisblack", compression="jpeg")
    done = oz.reference(tmp_path / "a.tif", tmp_path / "a.json")
    assert list(done.skipped) == ["2"]
    group = oz.open_group(tmp_path / "a.json")
    np.testing.assert_array_equal(group["0"][...], one)
    np.testing.assert_array_equal(group["1"][...], two)


def test_strips_that_are_too_large_to_be_stored_are_refused(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", LAYOUTS["uneven strips"])
    with pytest.raises(InvalidArgument, match="shorter than the others"):
        oz.reference(tmp_path / "a.tif", tmp_path / "a.json", inline=10)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    st.tuples(st.integers(1, 3), st.integers(2, 40), st.integers(2, 40)),
    st.sampled_from(["u1", ">u2", "<i4", "f4", ">f8"]),
    st.sampled_from([None, "zlib", "zstd", "lzw", "packbits"]),
    st.one_of(st.integers(1, 50), st.just("tile")),
    st.booleans(),
)
def test_any_image_is_equal_to_tifffile(
    tmp_path: Path,
    shape: tuple[int, ...],
    kind: str,
    compression: str | None,
    rows: Any,
    predictor: bool,
) -> None:
    options: dict[str, Any] = {"tile": (16, 32)} if rows == "tile" else {"rowsperstrip": rows}
    options["predictor"] = predictor and compression is not None
    values = np.arange(np.prod(shape)).reshape(shape).astype(kind)
    tifffile.imwrite(
        tmp_path / "a.tif", values, photometric="minisblack", compression=compression,
        byteorder=kind[0] if kind[0] == ">" else "<", **options,
    )  # fmt: skip
    oz.reference(tmp_path / "a.tif", tmp_path / "a.json", overwrite=True)
    expected = tifffile.imread(tmp_path / "a.tif")
    np.testing.assert_array_equal(oz.open_array(tmp_path / "a.json")[...], expected)
