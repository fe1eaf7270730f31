"""Rows that a caller lists one by one: what the kernel takes, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnizarr import data_types
from omnizarr.codecs import Spec, bind_pipeline
from omnizarr.engine import kernel, rows
from omnizarr.engine.rows import Buffers, Files
from omnizarr.model import Named

pytestmark = pytest.mark.skipif(not kernel.available(), reason="the kernel was not built")


@pytest.fixture
def capsule() -> Any:
    """Chunks of 4 × 3 numbers without compression."""
    data_type = data_types.bind(Named("int16"))
    spec = Spec((4, 3), data_type, data_type.scalar(-1))
    return kernel.describe(bind_pipeline((Named("bytes", {"endian": "little"}),), spec), True)


def test_rows_are_written_to_files_and_read_again(capsule: Any, tmp_path: Path) -> None:
    source = Files(b"%s/" % bytes(tmp_path), ["a/0", "b.1"])
    listed = [
        ((slice(0, 4), slice(0, 3)), (slice(0, 4), slice(0, 3)), True),
        ((slice(1, 4, 2), slice(0, 1)), (slice(2, 4), slice(2, 3)), False),
    ]
    value = np.arange(12, dtype="i2").reshape(4, 3)
    assert rows.write(capsule, listed, source, value) == []
    assert np.fromfile(tmp_path / "a/0", "<i2").tolist() == list(range(12))
    assert np.fromfile(tmp_path / "b.1", "<i2").reshape(4, 3)[:, 0].tolist() == [-1, 8, -1, 11]
    out = np.zeros((4, 4), "i2")
    picked = [((2, slice(0, 3)), (slice(1, 4),), True)]
    source = Files(source.root, ["a/0"])
    assert rows.read(capsule, picked, source, out[1:2], tell_missing=True) == ([], [])
    assert out[1].tolist() == [0, 6, 7, 8]


def test_one_value_is_stored_everywhere(capsule: Any) -> None:
    source = Buffers([None, np.arange(24, dtype=np.uint8)])
    listed = [
        ((slice(0, 4), slice(0, 3)), (slice(0, 4), slice(10**9, 10**9 + 3)), True),
        ((slice(0, 1), 0), (slice(0, 1),), False),
    ]
    assert rows.write(capsule, listed[:1], Buffers([None]), np.array(5, "i2")) == []
    assert rows.write(capsule, listed, source, np.array(5, "i2")) is None  # different axes
    assert (
        rows.write(capsule, listed[1:], part := Buffers(source.values[1:]), np.array(5, "i2")) == []
    )
    assert np.frombuffer(part.values[0], "<i2").tolist() == [
        5,
        *np.arange(24, dtype=np.uint8).view("<i2")[1:],
    ]


def test_missing_values_are_told(capsule: Any) -> None:
    out = np.zeros((4, 6), "i2")
    listed = [
        ((slice(0, 4), slice(0, 3)), (slice(0, 4), slice(0, 3)), True),
        ((slice(0, 4), slice(0, 3)), (slice(0, 4), slice(3, 6)), True),
    ]
    source = Buffers([None, bytes(24)])
    assert rows.read(capsule, listed, source, out, tell_missing=True) == ([], [0])
    assert rows.read(capsule, listed, source, out, skip_missing=True) == [0]
    assert out[0].tolist() == [-1, -1, -1, 0, 0, 0]


WHOLE = (slice(0, 4), slice(0, 3))


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        (WHOLE, (slice(0, 4), slice(1, 4))),  # reaches out of the array
        (WHOLE, (slice(-4, 4), slice(0, 3))),
        (WHOLE, (slice(2**62, -(2**63)), slice(0, 3))),
        (WHOLE, (slice(0, 4, 2), slice(0, 3))),
        (WHOLE, (slice(0, 3), slice(0, 3))),  # of another length
        (WHOLE, (slice(0, 4),)),
        (WHOLE, (slice(0, 4), slice(0, 3), slice(0, 1))),
        (WHOLE, (0, slice(0, 3))),
        ((slice(0, 4), slice(3, 3)), WHOLE),
        ((slice(3, 0, -1), slice(0, 3)), WHOLE),
        ((4, slice(0, 3)), (slice(0, 3),)),  # not in the chunk
        ((np.array([0, 1]), slice(0, 3)), WHOLE),
        ((slice(0, 4),), (slice(0, 4),)),
        ([slice(0, 4), slice(0, 3)], WHOLE),
    ],
)
def test_rows_that_are_not_boxes_are_refused(capsule: Any, inside: Any, outside: Any) -> None:
    out = np.zeros((4, 3), "i2")
    assert rows.read(capsule, [(inside, outside, True)], Buffers([bytes(24)]), out) is None
    assert not out.any()


@pytest.mark.parametrize(
    ("listed", "source"),
    [
        ([(1, 2)], Buffers([None])),
        ([((slice(0, 4), slice(0, 3)), WHOLE, True)], Buffers([])),
        ([((slice(0, 4), slice(0, 3)), WHOLE, True)], Files(b"/tmp/", ["a", "b"])),
        ([((slice(0, 4), slice(0, 3)), WHOLE, True)], Files(b"", ["a"])),
        ([((slice(0, 4), slice(0, 3)), WHOLE, True)], Files(b"/tmp/", [b"a"])),  # type: ignore[list-item]
    ],
)
def test_wrong_calls_raise(capsule: Any, listed: Any, source: rows.Source) -> None:
    with pytest.raises(ValueError, match=r"tuple|value for|key|root|text"):
        rows.read(capsule, listed, source, np.zeros((4, 3), "i2"))


@pytest.mark.parametrize("key", ["", "/etc/x", "a\0b"])
def test_keys_outside_of_the_directory_are_refused(capsule: Any, key: str, tmp_path: Path) -> None:
    source = Files(b"%s/" % bytes(tmp_path), [key])
    assert rows.read(capsule, [(WHOLE, WHOLE, True)], source, np.zeros((4, 3), "i2")) is None


def test_a_value_of_the_wrong_size_is_left(capsule: Any) -> None:
    out = np.zeros((4, 3), "i2")
    assert rows.read(capsule, [(WHOLE, WHOLE, True)], Buffers([bytes(23)]), out) == [0]
