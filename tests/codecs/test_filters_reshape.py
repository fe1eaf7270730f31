"""reshape: lengths, input axes and the remainder, by its specification."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.codecs import Spec
from omnizarr.codecs.filters import Reshape
from omnizarr.data_types import bind
from omnizarr.model import Named
from tests.codecs.documents import check_refused
from tests.conformance.shards import sharding

FIXED = ("bytes", {"name": "bytes", "configuration": {"endian": "little"}})


def codec(*shape: Any) -> dict[str, Any]:
    return {"name": "reshape", "configuration": {"shape": list(shape)}}


def test_the_example_of_the_specification_works() -> None:
    data_type = bind(Named("uint8"))
    spec = Spec((100, 50, 64, 3), data_type, data_type.scalar(0))
    assert Reshape(shape=((0, 1), (2,), 3)).resolve(spec).shape == (5000, 64, 3)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_items_keep_their_order(shape: list[int], data: Any) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(shape)), max_size=3)) | {len(shape)})
    groups, start = [], 0
    for cut in cuts:
        axes = list(range(start, cut))
        length = math.prod(shape[start:cut])
        groups.append(data.draw(st.sampled_from([axes, length])))
        start = cut
    if data.draw(st.booleans()):
        groups[data.draw(st.integers(0, len(groups) - 1))] = -1
    store: dict[str, Any] = {}
    values = np.arange(1, 1 + math.prod(shape), dtype="<i4").reshape(shape)
    turned = {"name": "transpose", "configuration": {"order": [*reversed(range(len(groups)))]}}
    made = oz.create_array(
        store, shape=shape, chunks=shape, dtype="int32", codecs=[codec(*groups), turned, FIXED[1]]
    )
    made[...] = values
    lengths = [math.prod(shape[a:b]) for a, b in zip([0, *cuts], cuts, strict=False)]
    stored = np.frombuffer(store["c/" + "/".join("0" for _ in shape)], "<i4")
    assert stored.tolist() == values.reshape(lengths).T.ravel().tolist()
    assert (oz.open(store)[...] == values).all()
    assert (oz.open(store)[1:] == values[1:]).all()


def test_reshaped_shards_are_read_and_report_missing_chunks() -> None:
    shard = sharding(3, codecs=[FIXED[1]], index_codecs=[FIXED[1]])
    store: dict[str, Any] = {}
    made = oz.create_array(
        store, shape=(4, 6), chunks=(2, 6), dtype="uint8", codecs=[codec(-1), shard]
    )
    made[0] = 7
    want = np.zeros((4, 6), "u1")
    want[0] = 7
    assert (made[...] == want).all()
    made[1, 2:4] = 9
    want[1, 2:4] = 9
    assert (oz.open(store)[...] == want).all()
    assert (oz.open(store)[1, 1:3] == want[1, 1:3]).all()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("x", "lengths"),
        ([0], "positive"),
        ([True], "positive"),
        ([-2], "positive"),
        ([1.5], "positive"),
        ([-1, -1], "at most one -1"),
        ([[1], [0]], "rising"),
        ([[0, 0]], "rising"),
        ([[-1]], "positive"),
        ([[2]], "has 2 axes"),
        ([5], "does not hold the 24 items"),
        ([-1, 5], "does not hold the 24 items"),
        ([6, [0]], "axis 1 does not cover"),
        ([[0], 2, [1], -1], "does not cover|does not hold"),
        ([1] * 65, "at most 64"),
    ],
)
def test_bad_shapes_are_refused(shape: Any, message: str) -> None:
    check_refused("reshape", "uint8", {"shape": shape}, message, (4, 6))


SQUEEZE = {"name": "zarrs.squeeze"}


@pytest.mark.parametrize("engine", ["auto", "reference"])
@given(st.lists(st.integers(1, 3), max_size=5))
def test_squeeze_leaves_out_axes_of_length_1(engine: str, shape: list[int]) -> None:
    kept = [n for n in shape if n > 1] or [1]
    turned = {"name": "transpose", "configuration": {"order": [*reversed(range(len(kept)))]}}
    store: dict[str, Any] = {}
    values = np.arange(1, 1 + math.prod(shape), dtype="<i4").reshape(shape)
    with oz.configure(engine=engine):
        made = oz.create_array(
            store, shape=shape, chunks=shape, dtype="int32", codecs=[SQUEEZE, turned, FIXED[1]]
        )
        made[...] = values
        stored = np.frombuffer(store["/".join(["c", *("0" for _ in shape)])], "<i4")
        assert stored.tolist() == values.reshape(kept).T.ravel().tolist()
        assert np.array_equal(oz.open(store)[...], values)
