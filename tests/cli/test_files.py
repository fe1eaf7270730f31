"""`omnizarr import`, `export` and `pyramid`."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import tifffile

import omnizarr as oz
from tests.cli.conftest import run


@pytest.fixture
def file(in_tmp: Path) -> Path:
    with h5py.File("a.h5", "w") as opened:
        opened["x"] = np.arange(600).reshape(20, 30)
        opened["x"].dims[0].label, opened["x"].dims[1].label = "y", "x"
        opened["nothing"] = h5py.Empty("f4")
    return in_tmp / "a.h5"


def test_import_says_what_it_wrote_and_left_out(file: Path) -> None:
    result = run(
        "import", "a.h5", "a.zarr", "--chunks", "y=5", "--codecs", "zstd:3", "--dtype", "f8"
    )
    assert result.exit_code == 0, result.output
    assert "imported to a.zarr: 1 group, 1 array, 4.7 KiB\n" in result.stdout
    assert "left out: nothing: it is empty" in result.stderr
    array = oz.open("a.zarr")["x"]
    assert (array.chunks, array.dtype) == ((5, 30), np.dtype("f8"))
    assert array.codecs[-1].name == "zstd"


def test_import_as_json_and_dry_run(file: Path) -> None:
    plan = json.loads(run("import", "a.h5", "a.zarr", "--dry-run", "--json").stdout)
    assert plan["plan"]["phases"][0]["name"] == "read the files"
    assert not Path("a.zarr").exists()
    found = json.loads(run("import", "a.h5", "a.zarr", "--json").stdout)
    assert found["destination"] == "a.zarr"
    assert (found["arrays"], found["groups"], found["bytes_read"]) == (1, 1, 4800)
    assert list(found["skipped"]) == ["nothing"]


def test_import_refuses_in_one_line(file: Path) -> None:
    Path("b.tif").write_text("not an image")
    result = run("import", "b.tif", "b.zarr")
    assert result.exit_code == 2
    assert result.stderr.startswith("InvalidArgument: 'b.tif' is not a TIFF file, as its name says")
    assert len(result.stderr.splitlines()) == 1
    assert run("import", "none.h5", "b.zarr").exit_code == 3
    assert run("import", "a.h5", "b.zarr", "--strict").exit_code == 3
    assert not Path("b.zarr").exists()
    oz.create_group("b.zarr")
    result = run("import", "a.h5", "b.zarr")
    assert (result.exit_code, "--overwrite" in result.stderr) == (3, True)
    assert run("import", "a.h5", "b.zarr", "--overwrite", "--exclude", "nothing").exit_code == 0
    assert run("import", "a.h5", "b.zarr", "--node", "in/side").exit_code == 0
    assert oz.open("b.zarr")["in/side/x"].shape == (20, 30)


def test_export_writes_files_by_their_names(ocean: Path) -> None:
    for name in ("a.nc", "a.h5"):
        result = run("export", "ocean.zarr", name)
        assert result.exit_code == 0, result.output
        assert f"exported to {name}: " in result.stdout
    result = run("export", "ocean.zarr", "t.tif", "--node", "deep/t", "--dtype", "f4", "--json")
    assert json.loads(result.stdout)["arrays"] == 1
    assert tifffile.imread("t.tif").dtype == "f4"
    refused = run("export", "ocean.zarr", "t.tif", "--node", "deep/t")
    assert (refused.exit_code, "give --overwrite to replace it" in refused.stderr) == (3, True)
    assert run("export", "ocean.zarr", "t.tif", "--node", "deep/t", "--overwrite").exit_code == 0
    assert run("export", "ocean.zarr", "t.xyz").exit_code == 2
    one = run("export", "ocean.zarr", "b.tif")
    assert "a .tif file can hold one array only; give one with --node: deep/t, name" in one.stderr
    assert "unknown format 'numpy'" in run("export", "ocean.zarr", "b.npy").stderr


def test_pyramid_writes_and_adds_levels(in_tmp: Path) -> None:
    oz.create_array("a.zarr", data=np.zeros((3, 300, 600), "u1"))
    options = "--axes", "cyx", "--scale", "1,0.5,0.5", "--unit", "micrometer", "--levels", "2"
    result = run("pyramid", "a.zarr", "b.zarr", *options, "--chunks", "c=1,y=100,x=100")
    assert result.exit_code == 0, result.output
    assert "wrote b.zarr: 1 group, 2 arrays" in result.stdout
    dry = run("pyramid", "b.zarr", "--levels", "4", "--dry-run")
    assert "/3: (3, 38, 75), mean" in dry.stdout
    assert len(oz.ome.open("b.zarr").levels) == 2
    assert "added levels to b.zarr: 2 arrays" in run("pyramid", "b.zarr", "--levels", "4").stdout
    image = oz.ome.open("b.zarr")
    assert image.scale == (1, 0.5, 0.5)
    assert [level.shape[1:] for level in image.levels] == [
        (300, 600),
        (150, 300),
        (75, 150),
        (38, 75),
    ]
    assert image.levels[0].chunks == (1, 100, 100)
    assert "nothing was added" in run("pyramid", "b.zarr", "--levels", "4").stdout
    assert run("pyramid", "b.zarr", "--axes", "cyx").exit_code == 2
    assert run("pyramid", "a.zarr", "c.zarr", "--scale", "1,x").exit_code == 2
    assert run("pyramid", "a.zarr").exit_code == 2
    oz.create_group("flat.zarr").create_array("x", shape=(4, 4))
    image = run("pyramid", "flat.zarr", "image.zarr")
    assert "has no OME-Zarr metadata; its attributes: none; its arrays: x" in image.output


@pytest.mark.parametrize(
    "words",
    [
        "convert ocean.zarr there",
        "copy ocean.zarr there",
        "rechunk ocean.zarr there --chunks 5,5",
        "import a.npy there",
        "pyramid ocean.zarr/deep/t there",
        "export ocean.zarr/deep/t there --format hdf5",
    ],
)
def test_a_dry_run_says_that_the_destination_exists(ocean: Path, words: str) -> None:
    np.save("a.npy", np.zeros(3))
    assert "note" not in run(*words.split(), "--dry-run").stderr
    if words.startswith("export"):
        Path("there").write_bytes(b"")
    else:
        oz.create_array("there", shape=3)
    found = run(*words.split(), "--dry-run")
    assert found.exit_code == 0
    assert "there exists, and is replaced only with --overwrite" in found.stderr
    found = run(*words.split(), "--dry-run", "--overwrite")
    assert "there exists, and would be replaced" in found.stderr
