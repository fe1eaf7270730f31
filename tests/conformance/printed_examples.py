"""Examples of the specifications, run as printed."""

from __future__ import annotations

import doctest

import numpy as np


def run_printed(text: str) -> int:
    """Run the interactive sessions in `text`, compare their output, and return their number.

    Only ``import zarr`` is changed.
    """
    source = text.replace("import zarr", "import omnizarr as zarr")
    example = doctest.DocTestParser().get_doctest(source, {}, "printed example", None, 0)
    output: list[str] = []
    with np.printoptions(legacy="1.13"):  # the texts show what NumPy printed then
        result = doctest.DocTestRunner(verbose=False).run(example, out=output.append)
    assert result.failed == 0, "".join(output)
    return result.attempted
