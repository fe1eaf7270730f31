"""Codecs: those registered with zarr-python, and ours given to its functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numcodecs
import numpy as np
import pytest

import omnizarr
from omnizarr.errors import UnknownExtension


@pytest.fixture
def flip(zarr: Any) -> Any:
    """A codec on bytes that only zarr-python knows."""

    @dataclass(frozen=True)
    class Flip(zarr.abc.codec.BytesBytesCodec):  # type: ignore[misc]  # its type is not known
        is_fixed_size = True
        mask: int = 255

        @classmethod
        def from_dict(cls, data: Any) -> Flip:
            return cls(**data.get("configuration", {}))

        def to_dict(self) -> Any:
            return {"name": "test_flip", "configuration": {"mask": self.mask}}

        async def _encode_single(self, data: Any, spec: Any) -> Any:
            flipped = data.as_numpy_array().view("u1") ^ self.mask
            return spec.prototype.buffer.from_bytes(flipped.tobytes())

        _decode_single = _encode_single

        def compute_encoded_size(self, size: int, spec: Any) -> int:
            return size

    zarr.registry.register_codec("test_flip", Flip)
    return Flip


def test_a_codec_that_zarr_python_knows_is_used(zarr: Any, flip: Any) -> None:
    values: dict[str, Any] = {}
    zarr.create_array(values, data=np.arange(4, dtype="u1"), compressors=[flip(mask=1)])
    assert values["c/0"].to_bytes() == bytes([1, 0, 3, 2])
    assert zarr.open_array(values)[:].tolist() == [0, 1, 2, 3]
    assert zarr.open_array(values).compressors == (flip(mask=1),)


def test_after_undo_the_codec_is_unknown(zarr: Any, flip: Any) -> None:
    array = zarr.create_array({}, data=np.arange(4, dtype="u1"), compressors=[flip()])
    omnizarr.as_zarr(undo=True)
    with pytest.raises(UnknownExtension, match="test_flip"):
        omnizarr.open(array._location.store)[:]


def test_codecs_of_omnizarr_are_accepted(zarr: Any) -> None:
    array = zarr.create_array(
        {}, shape=(3,), dtype="i4", compressors=omnizarr.codecs.ZstdCodec(level=3)
    )
    assert array.compressors == (zarr.codecs.ZstdCodec(level=3),)
    old = zarr.create_array(
        {}, shape=(3,), dtype="i4", zarr_format=2, compressors=omnizarr.codecs.Zlib(level=2)
    )
    assert old.compressors == (numcodecs.Zlib(level=2),)


def test_codecs_of_numcodecs_are_accepted(zarr: Any) -> None:
    array = zarr.create(
        (6,),
        dtype="i4",
        zarr_format=2,
        compressor=numcodecs.LZ4(),
        filters=[numcodecs.Delta("i4")],
    )
    array[:] = range(6)
    assert array[:].tolist() == [*range(6)]
    assert array.filters == (numcodecs.Delta("i4"),)
    assert array.compressors == (numcodecs.LZ4(),)
