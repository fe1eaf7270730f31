"""Codecs that lose something say so, and `info` shows it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import omnizarr as oz
from omnizarr.codecs import BytesBytesCodec
from tests.cli.conftest import run


def named(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


@pytest.mark.parametrize(
    ("dtype", "codec", "lossy"),
    [
        ("f4", named("bitround", keepbits=8), True),
        ("f4", named("numcodecs.bitround", keepbits=8), True),
        ("f4", named("numcodecs.quantize", digits=2, dtype="<f4"), True),
        (
            "f4",
            named("numcodecs.fixedscaleoffset", offset=0, scale=9, dtype="<f4", astype="i2"),
            True,
        ),
        ("f4", named("numcodecs.astype", encode_dtype="<f2", decode_dtype="<f4"), True),
        ("f4", named("numcodecs.astype", encode_dtype="<f8", decode_dtype="<f4"), False),
        ("i4", named("numcodecs.delta", dtype="<i4"), False),
        ("i4", named("scale_offset", offset=5, scale=2), False),
        ("f8", named("cast_value", data_type="float32"), True),
        ("f4", named("cast_value", data_type="float64"), False),
        ("f4", named("cast_value", data_type="int32"), True),
        ("i2", named("cast_value", data_type="float32"), False),
        ("i4", named("cast_value", data_type="float32"), True),
        ("u1", named("cast_value", data_type="int16"), False),
        ("i4", named("cast_value", data_type="int16"), False),  # others are errors
        ("i4", named("cast_value", data_type="int16", out_of_range="clamp"), True),
    ],
)
def test_filters_that_lose_something_are_shown(
    dtype: str, codec: dict[str, Any], lossy: bool
) -> None:
    for shards in (None, (8,)):
        options: Any = {"filters": codec, "shards": shards, "fill_value": 0}
        array = oz.create_array({}, shape=8, chunks=4, dtype=dtype, **options)
        assert ("lossy codecs" in array.info) is lossy


def test_bits_that_are_not_packed_are_lost() -> None:
    for config, lossy in (({}, False), ({"last_bit": 3}, True), ({"first_bit": 2}, True)):
        options: Any = {"serializer": named("packbits", **config), "compressors": None}
        array = oz.create_array({}, shape=8, dtype="u1", **options)
        assert ("lossy codecs" in array.info) is lossy


def test_codecs_of_other_packages_can_declare_it() -> None:
    @dataclass(frozen=True)
    class Forget(BytesBytesCodec):
        name = "example.forget"
        lossy = True

        def encode(self, data: Any) -> bytes:
            return bytes(len(data))

        def decode(self, data: Any, size: int | None) -> bytes:
            return bytes(data)

    oz.register("codec", "example.forget", Forget, replace=True)
    array = oz.create_array({}, shape=8, dtype="u1", compressors=Forget())
    assert array.info["lossy codecs"] == "example.forget"


def test_the_command_shows_them(tmp_path: Path) -> None:
    path = str(tmp_path / "a.zarr")
    oz.create_array(path, shape=8, dtype="f4", filters=named("bitround", keepbits=8))
    assert "lossy codecs" in run("info", path).output
    [facts] = json.loads(run("info", path, "--json").stdout)["results"]
    assert facts["lossy_codecs"] == ["bitround"]
    oz.create_array(path, shape=8, dtype="f4", overwrite=True)
    assert "lossy codecs" not in run("info", path).output
