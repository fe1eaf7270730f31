"""Channels are shown from their smallest to their largest value by default."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.conventions.ome import levels


def windows(values: Any, **options: Any) -> list[Any]:
    image = oz.ome.write({}, values, axes="cyx", unit="um", method="max", **options)
    assert oz.ome.validate(image.group.store) == []
    return [channel.window for channel in image.channels]


def test_a_window_that_is_not_given_comes_from_the_coarsest_level() -> None:
    values = np.random.default_rng(0).integers(100, 900, (2, 64, 64)).astype("u2")
    values[1] += 1000
    given = {"min": 0, "max": 4095, "start": 7, "end": 9}
    first, second = windows(values, levels=3, channels=["a", oz.ome.Channel("b", window=given)])
    coarse = values[0].reshape(16, 4, 16, 4).max((1, 3))
    assert first == {"min": 0, "max": 65535, "start": coarse.min(), "end": coarse.max()}
    assert second == given


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (5, "u1", (0, 255, 5, 6)),
        (255, "u1", (0, 255, 254, 255)),
        (-3, "i2", (-(2**15), 2**15 - 1, -3, -2)),
        (2.5, "f4", (0, 2.5, 1.5, 2.5)),
        (np.nan, "f4", (0, 1, 0, 1)),
        (True, "?", (0, 1, 0, 1)),
    ],
)
def test_a_window_is_never_empty(value: Any, dtype: str, expected: tuple[Any, ...]) -> None:
    (found,) = windows(np.full((1, 4, 4), value, dtype), levels=1, channels=["a"])
    assert tuple(found[k] for k in ("min", "max", "start", "end")) == expected


def test_only_the_middle_of_a_large_level_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "WINDOW_BYTES", 100)
    values = np.arange(2 * 10 * 20, dtype="u1").reshape(2, 10, 20)
    _, second = windows(values, levels=1, channels=["a", "b"])
    assert (second["start"], second["end"]) == (values[1, 5].min(), values[1, 5].max())
