"""Examples of the specifications, run as printed."""

from __future__ import annotations

import doctest

import numpy as np

from omnizarr import zarr


def run_printed(text: str) -> int:
    """Run the interactive sessions in `text`, compare their output, and return their number.

    Only ``import zarr`` is changed. Version 2 was the default when they were printed.
    """
    source = text.replace("import zarr", "from omnizarr import zarr")
    example = doctest.DocTestParser().get_doctest(source, {}, "printed example", None, 0)
    output: list[str] = []
    with (
        np.printoptions(legacy="1.13"),  # the texts show what NumPy printed then
        zarr.config.set({"default_zarr_format": 2}),
    ):
        result = doctest.DocTestRunner(verbose=False).run(example, out=output.append)
    assert result.failed == 0, "".join(output)
    return result.attempted
