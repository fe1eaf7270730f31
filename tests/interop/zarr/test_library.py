"""The configuration of zarr-python has its effect; errors and codecs of both libraries."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numcodecs
import numpy as np
import pytest

import omnizarr
from omnizarr import errors
from omnizarr.errors import UnknownExtension
from omnizarr.interop.zarr import library
from omnizarr.interop.zarr.library import translate, translated


def test_the_number_of_threads_is_that_of_the_configuration(zarr: Any) -> None:
    with zarr.config.set({"threading.max_workers": 2}), library.configured():
        assert omnizarr.config.get().threads == 2


def test_settings_of_arrays_apply_to_new_handles(zarr: Any) -> None:
    with zarr.config.set({"array.write_empty_chunks": True}):
        array = zarr.create_array({}, shape=(4,), chunks=(2,), dtype="i1")
    array[:] = 0
    assert array.nchunks_initialized == 2
    other = zarr.create_array({}, shape=(4,), chunks=(2,), dtype="i1")
    other[:] = 0
    assert other.nchunks_initialized == 0


def test_missing_chunks_are_errors_on_request(zarr: Any) -> None:
    if "read_missing_chunks" not in zarr.config.get("array"):
        pytest.skip("new in zarr-python 3.4")
    array = zarr.create_array({}, shape=(4,), dtype="i1", config={"read_missing_chunks": False})
    with pytest.raises(zarr.errors.ChunkNotFoundError):
        array[:]


CASES: list[tuple[errors.OmnizarrError, str, str]] = [
    (errors.NodeNotFound("x"), "array", "ArrayNotFoundError"),
    (errors.NodeNotFound("x"), "group", "GroupNotFoundError"),
    (errors.NodeNotFound("x"), "", "NodeNotFoundError"),
    (errors.NodeExists("x", kind="array"), "group", "ContainsArrayError"),
    (errors.NodeExists("x", kind="group"), "array", "ContainsGroupError"),
    (errors.SelectionError("x"), "array", "BoundsCheckError"),
    (errors.WrongNode("x"), "", "NodeTypeValidationError"),
    (errors.InvalidMetadata("x"), "", "MetadataValidationError"),
    (errors.UnknownExtension("x", kind="codec", name="y"), "", "UnknownCodecError"),
]


@pytest.mark.parametrize(("error", "kind", "name"), CASES)
def test_an_error_is_also_that_of_zarr_python_and_can_be_pickled(
    zarr: Any, error: errors.OmnizarrError, kind: str, name: str
) -> None:
    if not hasattr(zarr.errors, name):
        pytest.skip("not in this version of zarr-python")
    found = translate(error, kind)
    assert isinstance(found, getattr(zarr.errors, name))
    assert isinstance(found, type(error))
    assert str(found) == str(error)
    assert vars(found) == vars(error)
    again = pickle.loads(pickle.dumps(found))
    assert (type(again), str(again), vars(again)) == (type(found), str(found), vars(found))


def test_an_error_is_translated_once(zarr: Any) -> None:
    found = translate(errors.NodeExists("x", kind="array"))
    assert translate(found) is found


def test_the_cause_is_kept(zarr: Any) -> None:
    cause = OSError("disk")

    def fail() -> None:
        with translated("array"):
            raise errors.NodeNotFound("x") from cause

    with pytest.raises(zarr.errors.ArrayNotFoundError) as caught:
        fail()
    assert caught.value.__cause__ is cause


def test_a_document_that_is_not_json_is_that_error_too(zarr: Any) -> None:
    store = zarr.storage.MemoryStore()
    store._store_dict["zarr.json"] = zarr.core.buffer.cpu.Buffer.from_bytes(b'{"a": }')
    with pytest.raises(json.JSONDecodeError, match=r"zarr\.json") as caught:
        zarr.open_group(store, mode="r")
    assert isinstance(caught.value, errors.InvalidMetadata)
    assert caught.value.pos == 6
    group = zarr.create_group(other := zarr.storage.MemoryStore())
    other._store_dict["b/zarr.json"] = store._store_dict["zarr.json"]
    with pytest.raises(json.JSONDecodeError, match=r"b/zarr\.json"):
        "b" in group  # noqa: B015


@pytest.mark.parametrize(("text", "kind"), [(None, FileNotFoundError), ("no", BadZipFile)])
def test_a_zip_file_that_cannot_be_read_is_the_error_of_python_too(
    zarr: Any, tmp_path: Path, text: str | None, kind: type[Exception]
) -> None:
    if text is not None:
        (tmp_path / "a.zip").write_text(text)
    with pytest.raises(kind, match=r"a\.zip") as caught:
        zarr.open_group(zarr.storage.ZipStore(tmp_path / "a.zip", mode="r"), mode="r")
    assert isinstance(caught.value, errors.StoreError)


class LostConnection(Exception):
    """An error of a package with a store."""


class MissingPlugin(ImportError):
    """One whose layout excludes that of `OSError`."""


@pytest.mark.parametrize("cause", [LostConnection("gone"), MissingPlugin("gone")])
def test_an_error_of_a_store_is_caught_by_its_class(zarr: Any, cause: Exception) -> None:
    class Failing(zarr.storage.MemoryStore):  # type: ignore[misc]
        async def get(self, *args: Any, **options: Any) -> Any:
            raise cause

    with pytest.raises(type(cause)) as caught:
        zarr.open_group(Failing(), mode="r")
    assert "zarr.json" in str(caught.value) + str(getattr(caught.value, "__notes__", ""))


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
