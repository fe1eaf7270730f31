"""A dataset is written with the codecs that it was read with, by both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import omnizarr as oz
import omnizarr.xarray as ozx

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning:zarr")

DELTA = {"id": "delta", "dtype": "<i4", "astype": "<i4"}
ZLIB = {"id": "zlib", "level": 1}
CHOICES: list[tuple[Any, dict[str, Any]]] = [
    *((f, {}) for f in (2, 3, "3-draft")),
    *((f, {"compressors": {"id": "gzip", "level": 3}}) for f in (2, 3, "3-draft")),
    *((f, {"compressors": None}) for f in (2, 3, "3-draft")),
    *((f, {"chunks": (2, 3), "shards": (4, 6)}) for f in (3, "3-draft")),
    (2, {"filters": [DELTA], "compressors": ZLIB}),
    (2, {"filters": [{"id": "shuffle", "elementsize": 4}], "compressors": ZLIB}),
    (2, {"order": "F"}),
    (3, {"filters": [{"name": "transpose", "configuration": {"order": [1, 0]}}]}),
    (3, {"serializer": {"name": "bytes", "configuration": {"endian": "big"}}}),
]


def dataset() -> xr.Dataset:
    return xr.Dataset(
        {
            "v": (("y", "x"), np.arange(72, dtype="i4").reshape(8, 9)),
            "name": ("y", np.array(["a", "bb", "", "d", "e", "f", "g", "h"], object)),
        }
    )


@pytest.mark.parametrize(("zarr_format", "options"), CHOICES)
def test_codecs_are_kept_by_either_engine(
    tmp_path: Path, zarr_format: Any, options: dict[str, Any]
) -> None:
    data = dataset() if zarr_format != "3-draft" else dataset()[["v"]]
    ozx.write(data, tmp_path / "a", zarr_format=zarr_format, encoding={"v": options})
    found = xr.open_dataset(tmp_path / "a", engine="omnizarr")
    ozx.write(found, tmp_path / "b", zarr_format=zarr_format)
    theirs = 3 if zarr_format == "3-draft" else zarr_format
    found.to_zarr(tmp_path / "c", zarr_format=theirs)  # type: ignore[arg-type]
    ozx.write(found, tmp_path / "d", zarr_format=theirs)
    for name in "abcd":
        with xr.open_dataset(tmp_path / name, engine="omnizarr") as again:
            xr.testing.assert_identical(again.load(), data)
    arrays = {name: oz.open(tmp_path / name, path="v") for name in "abcd"}
    assert arrays["b"].codecs == arrays["a"].codecs
    if "order" not in options:  # xarray's engine does not know it
        assert arrays["d"].codecs == arrays["c"].codecs
    assert [a.chunks for a in arrays.values()] == [arrays["a"].chunks] * 4
    assert [a.shards for a in arrays.values()] == [arrays["a"].shards] * 4


@pytest.mark.parametrize("order", ["little", "big"])
def test_the_byte_order_is_part_of_the_encoding(tmp_path: Path, order: str) -> None:
    """D9b: the draft has it in the data type, and zarr-python 3.4 refuses a codec without it."""
    kind = np.dtype("i4").newbyteorder("<" if order == "little" else ">")
    data = xr.Dataset({"v": ("x", np.arange(9, dtype=kind)), "w": ("x", np.arange(9, dtype="u1"))})
    ozx.write(data, tmp_path / "a", zarr_format="3-draft")
    found = xr.open_dataset(tmp_path / "a", engine="omnizarr")
    assert found.v.encoding["serializer"]["configuration"] == {"endian": order}
    assert found.w.encoding["serializer"]["configuration"] == {}
    found.to_zarr(tmp_path / "b", zarr_format=3)
    xr.testing.assert_identical(xr.open_zarr(tmp_path / "b").load(), data)


def test_an_unknown_codec_does_not_prevent_reading_other_variables(
    tmp_path: Path,
) -> None:
    ozx.write(dataset(), tmp_path / "a", zarr_format=2)
    document = tmp_path / "a" / "v" / ".zarray"
    document.write_text(document.read_text().replace('"blosc"', '"from-elsewhere"'))
    found = xr.open_dataset(tmp_path / "a", engine="omnizarr", consolidated=False)
    np.testing.assert_array_equal(found.name, dataset().name)
    with pytest.raises(oz.OmnizarrError, match="from-elsewhere"):
        found.v.load()


def test_an_unsupported_codec_is_named() -> None:
    bad = dataset().assign(v=dataset().v.assign_attrs(bad=object()))
    with pytest.raises(TypeError, match="cannot be stored as JSON") as caught:
        ozx.write(bad, {})
    assert any("the variable 'v'" in note for note in caught.value.__notes__)
    sharded = dataset()
    sharded["v"].encoding = {"chunks": (2, 3), "shards": (4, 6)}
    with pytest.raises(oz.OmnizarrError, match="cannot express shards") as caught:
        ozx.write(sharded, {}, zarr_format=2)
    assert any(".drop_encoding()" in note for note in caught.value.__notes__)
    ozx.write(sharded.drop_encoding(), {}, zarr_format=2)
