"""zarrs.gdeflate: chunks that NVIDIA's libdeflate compressed, as zarrs stores them."""

from __future__ import annotations

import json
import struct
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.codecs.extensions.gdeflate import PAGE
from tests.codecs.extensions.damage import check_damaged
from tests.golden import archives
from tests.property.test_damaged_chunks import damaged

GOLDEN = "gdeflate-by-libdeflate"
NAMES = sorted(k.removeprefix("chunks/") for k in archives.contents(GOLDEN) if k[:6] == "chunks")


@cache
def stored(name: str) -> dict[str, Any]:
    """Return an array of bytes with one chunk that libdeflate compressed."""
    wanted = archives.contents(GOLDEN)[f"expected/{name.partition('.')[0]}"]
    store: dict[str, Any] = {}
    oz.create_array(
        store, shape=len(wanted) or 1, chunks=len(wanted) or 1, dtype="u1", codecs=["bytes"]
    )
    document = json.loads(store["zarr.json"])
    level = int(name.partition(".")[2])
    document["codecs"].append({"name": "zarrs.gdeflate", "configuration": {"level": level}})
    store["zarr.json"] = json.dumps(document).encode()
    store["c/0"] = archives.contents(GOLDEN)[f"chunks/{name}"]
    return store


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("empty")])
def test_chunks_read_as_their_writer_got_them(name: str, engine: str) -> None:
    wanted = archives.contents(GOLDEN)[f"expected/{name.partition('.')[0]}"]
    with oz.configure(engine=engine):
        assert oz.open(stored(name))[...].tobytes() == wanted


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("empty")])
def test_a_chunk_of_nothing_is_refused_where_there_are_bytes(name: str) -> None:
    with pytest.raises(oz.ChunkError, match="the header says 0 bytes, expected 1"):
        oz.open(stored(name), kind="array")[...]


def test_it_is_not_written() -> None:
    codecs = ["bytes", {"name": "zarrs.gdeflate", "configuration": {"level": 1}}]
    array = oz.create_array({}, shape=4, dtype="u1", codecs=codecs)
    with pytest.raises(oz.ChunkError, match="read but not written"):
        array[...] = 1


@pytest.mark.parametrize("level", [-1, 13, 1.5, None])
def test_wrong_levels_are_refused(level: Any) -> None:
    codecs = ["bytes", {"name": "zarrs.gdeflate", "configuration": {"level": level}}]
    with pytest.raises(oz.InvalidMetadata, match="level"):
        oz.create_array({}, shape=4, dtype="u1", codecs=codecs)


RUNS = archives.contents(GOLDEN)["chunks/runs.6"]


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        (RUNS[:10], "fewer than the header has"),
        (struct.pack("<QQ", 2**60, 1), "the header says 1152921504606846976 bytes"),
        (RUNS[:8] + struct.pack("<Q", 2**60), "fewer than the header has"),
        (RUNS[:16] + struct.pack("<Q", 2**60) + RUNS[24:], "do not fit the chunk's header"),
        (RUNS[:8] + struct.pack("<QQ", 1, 0), "the page ends before its last block"),
        (RUNS[:8] + struct.pack("<QQ", 1, 400) + bytes(400), "the page ends before its last block"),
        (RUNS[:8] + struct.pack("<QQI", 1, 4, 7), "the type 3"),
        (RUNS[:8] + struct.pack("<QQI", 1, 4, 1), "the pages have 0 bytes"),
    ],
)
def test_damaged_headers_and_pages_are_errors(chunk: bytes, message: str) -> None:
    with pytest.raises(oz.ChunkError, match=message):
        oz.open({**stored("runs.6"), "c/0": chunk}, kind="array")[...]


@given(st.data(), st.sampled_from([n for n in NAMES if n.split(".")[0] in ("runs", "one", "text")]))
def test_damaged_chunks_are_errors_or_have_the_right_shape(data: Any, name: str) -> None:
    store = stored(name)
    check_damaged(store, "c/0", data.draw(damaged(store["c/0"])))


@given(st.binary(max_size=400))
def test_pages_of_any_bytes_are_errors_or_have_the_right_shape(page: bytes) -> None:
    store = stored("pages.6")
    size = np.frombuffer(store["c/0"], "<u8", 1)[0]
    sizes = [len(page)] * -(-int(size) // PAGE)
    header = struct.pack(f"<QQ{len(sizes)}Q", size, len(sizes), *sizes)
    check_damaged(store, "c/0", header + page * len(sizes))
