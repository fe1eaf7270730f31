"""User programs pass mypy --strict and pyright, and their mistakes do not (D10)."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "typed.py"  # strict, with types that `assert_type` states
# Lines with a mistake end in `# wrong`; type checkers have to complain of them and of no other.
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
oz.create_array(shape=3, chunks=2, dtype="i4", compressors="zstd")
oz.create_array(shape=3, chunk=2)  # wrong
oz.creat_array("x")  # wrong
small = oz.create_array(shape=3, dtype=np.int16)
number: npt.NDArray[np.int16] = small[1:]
wrong: npt.NDArray[np.float32] = small[1:]  # wrong
oz.open("new.zarr", "w").create_array("x", shape=3)
oz.open("new.zarr", "w").shape  # wrong
oz.open("new.zarr", "w", shape=3).shape
oz.codecs.ZstdCodec(level=3)
LocalStore("x").get("k")
LMDBStore("x").get("k")
LMDBStore("x").gte("k")  # wrong
oz.codecs.ZstCodec()  # wrong


def values(array: oz.Array) -> npt.NDArray[np.float32]:
    found: npt.NDArray[np.float32] = array[...]
    return found


def read(store: StoreLike) -> npt.NDArray[Any]:
    return np.asarray(oz.open(store))


image = ome.open("cells.ome.zarr")
image.read({"y": (1, 2)}, unit="micrometer")
typed: ome.Image = ome.open("cells.ome.zarr")
typed.axes[0].name.upper()
typed.axis  # wrong
plate: ome.Plate = ome.open("plate.zarr")
plate["A/1"][0].read()
"""


WRONG = {n for n, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}


def test_user_programs_type_check(tmp_path: Path) -> None:
    """D10: the result of `open` can be used, and misspelt names are found."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    config = ROOT / "pyproject.toml"
    options = [f"--config-file={config}", f"--cache-dir={ROOT / '.mypy_cache'}"]
    said, errors, _ = api.run([*options, str(program), str(EXAMPLE)])
    assert errors == ""
    assert "typed.py" not in said, said
    assert {int(line) for line in re.findall(r"program\.py:(\d+): error", said)} == WRONG, said


def test_user_programs_pass_pyright(tmp_path: Path) -> None:
    pytest.importorskip("pyright", reason="pyright is not installed (`make test` installs it)")
    shutil.copy(EXAMPLE, tmp_path)
    # Expressions that only stand there are no mistakes here.
    (tmp_path / "program.py").write_text(f"# pyright: basic, reportUnusedExpression=false{PROGRAM}")
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT / "src")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "-p", str(tmp_path), "--outputjson"]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    texts = [
        f"{Path(d['file']).name}:{d['range']['start']['line'] + 1}: {d['message']}" for d in found
    ]
    lines = {int(text.split(":")[1]) for text in texts if text.startswith("program.py")}
    assert lines == WRONG, texts
    assert not any(text.startswith("typed.py") for text in texts), texts


def test_the_typed_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(EXAMPLE))
    example["main"](tmp_path / "station.zarr")
    example["main"](tmp_path / "station.zarr")
    assert capsys.readouterr().out.splitlines()[:2] == ["(30,) -10.0", "daily hourly"]
