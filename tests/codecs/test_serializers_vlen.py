"""vlen-utf8: the compiled and the plain codec give the same bytes, values and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numcodecs import VLenUTF8

import omnizarr as oz
from omnizarr.codecs import serializers
from tests.servers.skipped import COMPILER

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
needs_compiled = pytest.mark.skipif(serializers._strings is None, reason=COMPILER)


def stored(items: list[str], plain: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, Any]:
    """Return the bytes of a chunk of strings, and the values read back."""
    if plain:
        monkeypatch.setattr(serializers, "_strings", None)
    store: dict[str, bytes] = {}
    data = np.array(items, np.dtypes.StringDType())
    array = oz.create_array(store, data=data, chunks=max(1, len(items)), compressors=None)
    with oz.configure(write_empty_chunks=True):
        array[...] = data
    return store.get("c/0", b""), array[...]


@needs_compiled
@given(st.lists(TEXT, max_size=20))
def test_both_codecs_give_the_same_bytes_and_values(items: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plain, plain_back = stored(items, True, patch)
    with pytest.MonkeyPatch.context() as patch:
        quick, quick_back = stored(items, False, patch)
    assert quick == plain
    assert quick_back.tolist() == plain_back.tolist() == items
    if items:
        assert quick == bytes(VLenUTF8().encode(np.array(items, object)))


@needs_compiled
@given(st.lists(TEXT, min_size=1, max_size=6), st.data())
def test_damage_gives_the_same_error_or_value_in_both_codecs(items: list[str], data: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        good, _ = stored(items, False, patch)
    kind = data.draw(st.sampled_from(["cut", "flip", "more"]))
    bad = bytearray(good)
    if kind == "cut":
        bad = bad[: data.draw(st.integers(0, len(bad) - 1))]
    elif kind == "flip":
        bad[data.draw(st.integers(0, len(bad) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        bad += b"xy"
    results = []
    for plain in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if plain:
                patch.setattr(serializers, "_strings", None)
            store: dict[str, bytes] = {}
            array = oz.create_array(
                store, shape=len(items), dtype=str, chunks=len(items), compressors=None
            )
            store["c/0"] = bytes(bad)
            try:
                results.append(array[...].tolist())
            except oz.ChunkError as e:
                results.append(str(e))
    assert results[0] == results[1]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("item", ["a", b"a"])
def test_bytes_after_the_last_item_are_refused(
    item: Any, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if plain:
        monkeypatch.setattr(serializers, "_strings", None)
    store: dict[str, bytes] = {}
    dtype = "string" if isinstance(item, str) else "variable_length_bytes"
    array = oz.create_array(store, shape=1, dtype=dtype, compressors=None)
    array[0] = item
    store["c/0"] += b"xyz"
    with pytest.raises(oz.ChunkError, match="3 bytes follow the last item"):
        array[...]


@needs_compiled
@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"a\x80"]
)
def test_text_that_is_not_utf_8_is_refused(bad: bytes) -> None:
    store: dict[str, bytes] = {}
    array = oz.create_array(store, shape=1, dtype=str, compressors=None)
    store["c/0"] = b"\1\0\0\0" + len(bad).to_bytes(4, "little") + bad
    with pytest.raises(oz.ChunkError, match="utf-8"):
        array[...]


@needs_compiled
def test_the_compiled_codec_refuses_other_arguments() -> None:
    assert serializers._strings is not None
    for wrong in (np.zeros(3), np.array(["a"]), [1, 2]):
        with pytest.raises((TypeError, ValueError)):
            serializers._strings.encode(wrong)  # type: ignore[arg-type]
    strings = np.array(["a", "b", "c", "d"], np.dtypes.StringDType())
    with pytest.raises(ValueError, match="contiguous"):
        serializers._strings.decode(b"", strings[::2])
