"""User programs pass mypy --strict, and their mistakes do not (D10)."""

from __future__ import annotations

import re
from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[1]
# Lines with a mistake end in `# wrong`; mypy has to complain of them and of no other.
PROGRAM = """
from typing import Any
import numpy as np
import numpy.typing as npt
import omnizarr as oz
from omnizarr import Array, Group, ome
from omnizarr.codecs import BytesCodec
from omnizarr.storage import LocalStore, LMDBStore, StoreLike

b = oz.open("ocean.zarr")
b[0]
b[0, ::10] = 1.5
b.shape, b.attrs["units"]
b["temperature"][0].sum()
b.create_array("new", shape=3)
known: Array = oz.open("ocean.zarr")
known.shape[0] + 1
known.shpae  # wrong
group: Group = oz.open("all.zarr", "w")
group["a/b"][0]
group.creat_array("x")  # wrong
inside: Array = group["x"]
if isinstance(b, oz.Array):
    b.chunks
else:
    b.tree()

a = oz.create_array("x.zarr", shape=(3, 4), dtype="f4", chunks=(1, 4), shards=None)
a.append(np.zeros((1, 4)))
a.chunk_key((0, 0)).upper()
oz.create_array("x.zarr", shape=3, chunk=3)  # wrong
oz.zeros(3, chunks=2, dtype="i4", compressors="zstd")
oz.zeros(3, chunk=2)  # wrong
oz.creat_array("x")  # wrong
oz.codecs.ZstdCodec(level=3)
LocalStore("x").get("k")
LMDBStore("x").get("k")
LMDBStore("x").gte("k")  # wrong
oz.codecs.ZstCodec()  # wrong


def values(array: oz.Array) -> npt.NDArray[np.float32]:
    found: npt.NDArray[np.float32] = array[...]
    return found


def read(store: StoreLike) -> npt.NDArray[Any]:
    return np.asarray(oz.open_array(store))


image = ome.open("cells.ome.zarr")
image.read({"y": (1, 2)}, unit="micrometer")
typed: ome.Image = ome.open("cells.ome.zarr")
typed.axes[0].name.upper()
typed.axis  # wrong
plate: ome.Plate = ome.open("plate.zarr")
plate["A/1"][0].read()
"""


def test_user_programs_type_check(tmp_path: Path) -> None:
    """D10: the result of `open` can be used, and misspelt names are found."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    config = ROOT / "pyproject.toml"
    said, errors, _ = api.run(
        [f"--config-file={config}", f"--cache-dir={ROOT / '.mypy_cache'}", str(program)]
    )
    assert errors == ""
    found = {int(line) for line in re.findall(r"program\.py:(\d+): error", said)}
    lines = enumerate(PROGRAM.splitlines(), 1)
    assert found == {number for number, line in lines if line.endswith("# wrong")}, said
