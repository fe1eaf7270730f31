"""Errors that are ours and zarr-python's at once."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import pytest

from omnizarr import errors
from omnizarr.interop.zarr.library import translate, translated

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
