"""An ordinary read takes few functions from the brackets to C."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.engine import kernel

SOURCE = str(Path(oz.__file__).parent)


@pytest.mark.skipif(not kernel.available(), reason="the compiled kernel is not built")
@pytest.mark.parametrize("selection", [np.s_[:], np.s_[10:20, 10:20], np.s_[3, 4]])
def test_a_read_takes_at_most_eight_functions_in_six_files(tmp_path: Path, selection: Any) -> None:
    values = np.arange(10_000, dtype="f4").reshape(100, 100)
    oz.create_array(tmp_path / "a.zarr", data=values, chunks=(50, 50))
    array = oz.open_array(tmp_path / "a.zarr")
    array[selection]  # binds names to code, once
    called: list[tuple[str, str]] = []
    compiled: list[str] = []

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(SOURCE):
            called.append((file, frame.f_code.co_qualname))
        elif event == "c_call" and file.endswith("kernel.py"):
            compiled.append(arg.__name__)

    sys.setprofile(profile)
    try:
        found = array[selection]
    finally:
        sys.setprofile(None)
    np.testing.assert_array_equal(found, values[selection])
    assert "run" in compiled  # the kernel did it
    assert len(called) <= 8, called
    assert len({file for file, _ in called}) <= 6, called
