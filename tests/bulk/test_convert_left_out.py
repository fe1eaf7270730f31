"""Nothing is silently left out of a copy or conversion (A20)."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnizarr as oz


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Create a hierarchy with a table that is not Zarr, as spatialdata does."""
    group = oz.create_group(tmp_path / "s")
    group.create_array("g/x", data=[1, 2, 3])
    (tmp_path / "s" / "g" / "points.parquet").mkdir()
    (tmp_path / "s" / "g" / "points.parquet" / "part.0.parquet").write_bytes(b"PAR1")
    (tmp_path / "s" / "README").write_text("about the data")
    return tmp_path / "s"


def test_convert_names_files_that_are_not_zarr(mixed: Path, tmp_path: Path) -> None:
    with pytest.warns(oz.OmnizarrWarning, match=r"not Zarr: 'README', 'g/points.parquet/'"):
        report = oz.convert(mixed, tmp_path / "t", zarr_format=2)
    assert report.foreign == ["README", "g/points.parquet/"]
    assert oz.open(tmp_path / "t")["g/x"][:].tolist() == [1, 2, 3]


def test_copying_keys_from_nowhere_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(oz.NodeNotFound):
        oz.convert(tmp_path / "nothing", {})
