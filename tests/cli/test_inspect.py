"""Commands that show metadata, values and pictures, and that serve them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.cli.conftest import run


def test_info_shows_an_array_and_how_much_is_stored(ocean: Path) -> None:
    result = run("info", "ocean.zarr", "--node", "deep/t")
    assert result.exit_code == 0
    for text in ("zarr v3", "(20, 30)", "int32", "y, x", "blosc", "6 of 6 chunks, "):
        assert text in result.output


def test_info_shows_a_group_and_its_attributes(ocean: Path) -> None:
    result = run("info", "ocean.zarr")
    assert "1 array, 1 group" in result.output
    assert '"title": "sea"' in result.output


def test_info_as_json_has_the_documented_members(ocean: Path) -> None:
    data = json.loads(run("info", "ocean.zarr/deep/t", "ocean.zarr", "--json").stdout)
    array, group = data["results"]
    stored = array.pop("stored")
    assert stored["values"] == stored["of"] == 6
    assert stored["bytes"] > 0
    assert array.pop("codecs")[0]["name"] == "bytes"
    assert (array["path"], array["kind"]) == ("ocean.zarr/deep/t", "array")
    assert (array["shape"], array["dtype"], array["nbytes"]) == ([20, 30], "int32", 2400)
    assert (array["chunks"], array["shards"], array["chunk_grid"]) == ([10, 10], None, [2, 3])
    assert group["kind"] == "group"
    assert group["members"] == {"arrays": 1, "groups": 1, "unreadable": []}
    assert data["failures"] == []


def test_a_folder_of_stores_is_inspected_store_by_store(ocean: Path) -> None:
    oz.create_array("lake/deep/a.zarr", shape=3)
    oz.copy("ocean.zarr", "lake/b.zarr.zip")
    (Path("lake") / "notes.txt").write_text("no store")
    data = json.loads(run("info", "lake", "ocean.zarr", "--json").stdout)
    assert [r["path"] for r in data["results"]] == [
        "lake/b.zarr.zip",
        "lake/deep/a.zarr",
        "ocean.zarr",
    ]
    text = run("info", "lake").output
    assert "lake/b.zarr.zip:\n" in text
    assert "lake/deep/a.zarr:\n" in text


def test_ls_lists_members_and_everything_below(ocean: Path) -> None:
    assert run("ls", "ocean.zarr").output == "deep/\nname\n"
    assert run("ls", "-r", "ocean.zarr").output == "deep/\ndeep/t\nname\n"
    assert run("ls", "ocean.zarr", "--node", "deep").output == "t\n"
    header, *rows = run("ls", "-lr", "ocean.zarr").output.splitlines()
    assert header.split()[:5] == ["type", "format", "shape", "chunks", "codecs"]
    assert rows[1].startswith("int32   v3      (20, 30)  (10, 10)  blosc+crc32c    2.3 KiB")
    assert rows[1].endswith("deep/t")


def test_ls_shows_nodes_that_cannot_be_read(ocean: Path) -> None:
    (ocean / "name/zarr.json").write_text("{")
    done = run("ls", "-l", "ocean.zarr")
    assert done.exit_code == 0
    assert "unreadable" in done.output


def test_tree_shows_everything_below(ocean: Path) -> None:
    lines = run("tree", "ocean.zarr").output.splitlines()
    assert lines[0] == "/"
    assert lines[1] == "├── deep"
    assert lines[2].startswith("│   └── t (20, 30) int32")
    assert lines[3].startswith("└── name (2,) string")
    assert len(run("tree", "ocean.zarr", "--depth", "1").output.splitlines()) == 3


@pytest.mark.parametrize(
    "data",
    [
        np.arange(600, dtype="i4").reshape(20, 30),
        np.linspace(0, 1, 7),
        np.array([True, False]),
        np.array(3.5),
        np.array(["a", "ü"]),
        np.array(["2020-01-01", "NaT"], "M8[D]"),
        np.zeros((0, 3)),
    ],
    ids=lambda a: f"{a.dtype}{a.shape}",
)
def test_cat_prints_values_as_numpy_does(in_tmp: Path, data: Any) -> None:
    oz.create_array("a.zarr", data=data)
    with np.printoptions(threshold=10**9, linewidth=80):
        assert run("cat", "a.zarr").output == f"{data}\n"


def test_cat_prints_a_selection_and_head_the_first_values(ocean: Path) -> None:
    data = np.arange(600).reshape(20, 30)
    assert run("cat", "ocean.zarr/deep/t", "--select", "1,:3").output == "[30 31 32]\n"
    assert run("head", "-n", "2", "ocean.zarr/deep/t").output == f"{data[:2, :2]}\n"
    found = json.loads(run("cat", "ocean.zarr/deep/t", "--select", "...,5", "--json").stdout)
    assert found["values"] == data[:, 5].tolist()
    assert (found["dtype"], found["shape"]) == ("int32", [20])
    outside = run("cat", "ocean.zarr/deep/t", "--select", "99")
    assert (outside.exit_code, "Traceback" in outside.output) == (3, False)


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (np.array([1.5, np.nan, -np.inf]), [1.5, "NaN", "-Infinity"]),
        (np.array([1 + 2j]), [[1.0, 2.0]]),
        (np.array(["2020-01-01"], "M8[D]"), ["2020-01-01"]),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array(7), 7),
    ],
)
def test_values_as_json_are_exact(in_tmp: Path, data: Any, values: Any) -> None:
    oz.create_array("a.zarr", data=data)
    assert json.loads(run("cat", "a.zarr", "--json").stdout)["values"] == values


def test_explain_shows_what_a_selection_costs(ocean: Path) -> None:
    command = ("explain", "ocean.zarr/deep/t", "--select", "y=3,x=5:25", "--price-per-gb", "1")
    shown = run(*command)
    assert shown.exit_code == 0
    for text in ("requests", "3", "at most 1.2 KiB", "80 bytes", "kernel"):
        assert text in shown.output
    found = json.loads(run(*command, "--sizes", "--json").stdout)
    assert (found["node"], found["chunks"], found["requests"]) == ("/", 3, 3)
    assert found["exact"]
    assert found["price"] == pytest.approx(found["fetched_bytes"] / 1e9)
    assert run("explain", "ocean.zarr/deep/t", "--select", "z=1").exit_code == 2


def test_cat_refuses_what_is_too_large_or_no_array(ocean: Path) -> None:
    oz.create_array("large.zarr", shape=(10**5, 10**5), dtype="f8")
    large = run("cat", "large.zarr")
    assert large.exit_code == 2
    assert "too much to print; give a part with --select" in large.output
    assert run("cat", "large.zarr", "--select", "0,:2").output == "[0. 0.]\n"
    group = run("cat", "ocean.zarr")
    assert group.exit_code == 3
    assert "give an array with --node; its arrays are name" in group.output


def test_info_without_a_listing_counts_nothing(ocean: Path) -> None:
    data = json.loads(
        run("info", "ocean.zarr/deep/t", "ocean.zarr", "--no-listing", "--json").stdout
    )
    assert "stored" not in data["results"][0]
    assert "members" not in data["results"][1]
    text = run("info", "ocean.zarr/deep/t", "--no-listing").output
    assert "stored" not in text


TIME = np.dtype("<M8[7Y]")


@pytest.mark.parametrize("command", ["info", "head", "cat", "stats"])
@pytest.mark.parametrize(
    "dtype",
    [TIME, [("a", "i4"), ("t", TIME)], [("t", TIME, (2,))]],
    ids=["time", "field", "fields"],
)
def test_times_beyond_the_years_of_numpy_are_shown(in_tmp: Path, command: str, dtype: Any) -> None:
    """NumPy 2.5 raises an error for their text, earlier ones show another year."""
    data = np.zeros(3, dtype)
    data.view("u1")[-1] = 0x13
    array = oz.create_array("t.zarr", data=data, zarr_format=2, fill_value=data[2])
    assert "fill value" in str(array.info)
    for options in ((), ("--json",)):
        assert run(command, "t.zarr", *options).exit_code == 0


def test_a_picture_is_written_and_replaced_only_on_demand(ocean: Path) -> None:
    assert run("preview", ocean, "a.png").stdout == "a.png\n"
    before = Path("a.png").read_bytes()
    assert before.startswith(b"\x89PNG")
    refused = run("preview", ocean, "a.png")
    assert refused.exit_code == 2
    assert "a.png exists; replace it? Nothing was changed; give --yes" in refused.output
    done = run("preview", ocean, "a.png", "--yes", "--pixels", 4, "--json")
    assert json.loads(done.stdout)["output"] == "a.png"
    assert Path("a.png").read_bytes() != before


def test_wrong_positions_are_named(ocean: Path) -> None:
    for position, text in (("t", "KEY=VALUE"), ("=3", "KEY=VALUE"), ("nowhere=1", "no axis")):
        wrong = run("preview", ocean, "a.png", "--at", position)
        assert (wrong.exit_code, text in wrong.output) == (2, True)
    assert not Path("a.png").exists()


@pytest.fixture
def where(tmp_path: Path) -> Path:
    oz.create_group(tmp_path / "a.zarr").create_array("t", data=[1, 2, 3])
    return tmp_path / "a.zarr"


@contextmanager
def _start(*words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "omnizarr", "serve", *words]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_an_interrupt_ends_it_cleanly(where: Path) -> None:
    with _start(str(where), "--port", "0") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.split()[-1]
        assert line == f"serving {where} at {url}\n"
        with urllib.request.urlopen(f"{url}store/zarr.json") as answer:
            assert answer.read() == (where / "zarr.json").read_bytes()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert "Traceback" not in errors
        assert f"programs open {url}store" in errors
        assert process.returncode == 0


def test_the_token_is_part_of_the_address_and_the_page_is_opened(
    where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    words = ["serve", str(where), "--port", "0", "--seconds", "0", "--open", "--json"]
    found = [json.loads(run(*words, "--token", "random").stdout) for _ in range(2)]
    assert [each["page"] for each in found] == opened
    assert opened[0] == f"{found[0]['url']}?token={found[0]['token']}"
    assert len(found[0]["token"]) >= 20
    assert found[0]["token"] != found[1]["token"]
    monkeypatch.setenv("OMNIZARR_TOKEN", "abc")
    assert json.loads(run(*words).stdout)["token"] == "abc"


def test_the_inventory_of_a_lake_has_a_line_for_each_array(ocean: Path) -> None:
    oz.copy("ocean.zarr", "lake/deep/a.zip")
    oz.create_array("lake/b.zarr", data=np.zeros((8, 8), "u1"), zarr_format=2)
    (ocean.parent / "lake/broken.zarr").mkdir()
    (ocean.parent / "lake/broken.zarr/zarr.json").write_text("{}")
    result = run("inventory", "lake", "--json")
    assert result.exit_code == 3
    *first, broken, _, last = map(json.loads, result.stdout.splitlines())
    assert broken["path"] == "lake/broken.zarr"
    assert broken["error"] == "InvalidMetadata"
    assert (first[0]["path"], first[0]["name"]) == ("lake/b.zarr", "")
    assert (first[0]["zarr_format"], first[0]["shape"], first[0]["dtype"]) == (2, [8, 8], "uint8")
    assert (last["path"], last["name"]) == ("lake/deep/a.zip", "name")
    table = run("inventory", "lake/deep", "lake/b.zarr").stdout.splitlines()
    assert " ".join(table[0].split()) == (
        "type format shape chunks codecs in memory stored ratio path"
    )
    assert [line.split()[-1] for line in table[1:]] == [
        "lake/deep/a.zip/deep/t", "lake/deep/a.zip/name", "lake/b.zarr"
    ]  # fmt: skip
    stored = sum(file.stat().st_size for file in (ocean / "deep/t/c").rglob("*") if file.is_file())
    assert table[1].split()[-2] == f"{600 * 4 / stored:.1f}"


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_the_inventory_goes_on_after_an_array_whose_keys_cannot_be_listed(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path / "a lake/x%41.zarr")
    for name in "abc":
        group.create_array(name, data=np.arange(4), chunks=2)
    (tmp_path / "a lake/x%41.zarr/b/c/9").symlink_to("nothing")
    result = run("inventory", (tmp_path / "a lake").as_uri(), "--json")
    assert result.exit_code == 3
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(each["name"], each.get("error")) for each in found] == [
        ("a", None), ("b", "StoreError"), ("c", None)
    ]  # fmt: skip
