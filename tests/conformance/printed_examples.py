"""Examples of the specifications, run as they are printed."""

from __future__ import annotations

import doctest

import numpy as np


def run_printed(text: str) -> int:
    """Run the interactive sessions in `text` and compare what they print; how many were run.

    Only ``import zarr`` is changed.
    """
    source = text.replace("import zarr", "import omnizarr as zarr")
    example = doctest.DocTestParser().get_doctest(source, {}, "printed example", None, 0)
    told: list[str] = []
    with np.printoptions(legacy="1.13"):  # the texts show what NumPy printed then
        result = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert result.failed == 0, "".join(told)
    return result.attempted
