"""Arrays whose metadata has a codec that the options do not allow."""

from __future__ import annotations

import json
from typing import Any

import pytest

import omnizarr as oz


def check_refused(
    codec: str,
    data_type: str,
    configuration: dict[str, Any],
    message: str,
    shape: tuple[int, ...] = (4,),
) -> None:
    """Check that reading an array with a codec raises an error that contains `message`."""
    store: dict[str, Any] = {}
    oz.create_array(store, shape=shape, chunks=shape, dtype=data_type, compressors=None)
    document = json.loads(store["zarr.json"])
    document["codecs"].insert(0, {"name": codec, "configuration": configuration})
    store["zarr.json"] = json.dumps(document).encode()
    with pytest.raises(oz.errors.InvalidMetadata, match=message) as e:
        oz.open(store)[...]
    assert codec in str(e.value)
    assert "codecs[0]" in str(e.value)
