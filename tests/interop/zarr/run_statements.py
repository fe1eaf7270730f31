"""Run blocks of statements with zarr-python, or with omnizarr in its place; print the results.

The last line of a block is an expression; its ``repr`` is the result. Run by
`test_opening.py`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import warnings
from typing import Any


def run(block: str) -> dict[str, Any]:
    """Return the result of a block, the classes of its error, and its warnings."""
    import numcodecs
    import numpy as np
    import zarr
    from zarr.core.sync import sync

    folder = tempfile.mkdtemp(dir=".")
    names: dict[str, Any] = {"zarr": zarr, "np": np, "sync": sync, "numcodecs": numcodecs}
    names["here"] = folder
    statements, _, last = block.rpartition("\n")
    error: list[str] = []
    result = ""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            exec(statements, names)
            result = repr(eval(last, names))
        except Exception as e:
            kinds = type(e).__mro__
            error = [c.__name__ for c in kinds if c.__module__ in ("builtins", "zarr.errors")]
    result = re.sub(r"memory://\d+(?:-\d+)?", "memory://…", result)
    result = result.replace(os.path.abspath(folder), "…").replace(os.path.basename(folder), "…")
    shown = (w for w in found if not issubclass(w.category, ResourceWarning))
    told = sorted({f"{w.category.__name__}: {w.message}" for w in shown})
    return {
        "result": result,
        "error": error,
        "warnings": told,
    }


def main() -> None:
    if sys.argv[1] == "ours":
        import omnizarr

        omnizarr.as_zarr()
    with open(sys.argv[2]) as file:
        blocks = [block.strip() for block in file.read().split("\n---\n")]
    print(json.dumps({block: run(block) for block in blocks}))


if __name__ == "__main__":
    main()
