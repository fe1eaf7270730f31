"""zarr.config: zarr-python's own, or one that answers the same keys."""

from __future__ import annotations

from typing import Any

import pytest

import omnizarr
from omnizarr.interop.zarr import config
from omnizarr.interop.zarr.config import DEFAULTS, ZarrConfig


def test_without_zarr_python_keys_with_dots_are_answered() -> None:
    settings = ZarrConfig()
    assert settings.get("array.order") == "C"
    assert settings.get("codec_pipeline.path").startswith("zarr.")
    assert settings.get("async.concurrency") == 10
    assert settings.get("nothing.here", 5) == 5
    with pytest.raises(KeyError):
        settings.get("nothing.here")
    assert settings.config["default_zarr_format"] == 3


def test_without_zarr_python_settings_last_until_the_block_ends() -> None:
    settings = ZarrConfig()
    with settings.set({"array.order": "F", "array": {"write_empty_chunks": True}}):
        assert settings.get("array.order") == "F"
        assert settings.get("array.write_empty_chunks") is True
    assert settings.to_dict() == DEFAULTS
    settings.set(array__order="F")
    assert settings.get("array.order") == "F"
    settings.reset()
    assert settings.get("array.order") == "C"


def test_environment_variables_change_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZARR_ARRAY__ORDER", "F")
    monkeypatch.setenv("ZARR_THREADING__MAX_WORKERS", "3")
    settings = ZarrConfig()
    assert settings.get("array.order") == "F"
    assert settings.get("threading.max_workers") == 3


def test_the_keys_are_those_of_zarr_python(zarr: Any) -> None:
    for key in zarr.config.defaults[0]:
        assert key in DEFAULTS
    assert set(zarr.config.get("array")) <= set(DEFAULTS["array"])


def test_the_number_of_threads_is_that_of_the_configuration(zarr: Any) -> None:
    with zarr.config.set({"threading.max_workers": 2}), config.settings():
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
