"""Output on a terminal and in a pipe, questions, progress."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.cli.answers import find_hierarchies
from omnizarr.cli.terminal import command_text, json_value, show_error
from omnizarr.concurrency.retry import AnswerLost
from tests.cli.conftest import run
from tests.servers.web import Web

pty = pytest.importorskip("pty")  # not on Windows
OMNIZARR = [sys.executable, "-m", "omnizarr"]


def test_an_error_is_shown_with_its_public_class(capsys: pytest.CaptureFixture[str]) -> None:
    show_error(AnswerLost("gone"))
    assert capsys.readouterr().err == "StoreError: gone\n"


def on_terminal(*words: str, typed: str = "") -> tuple[int, str]:
    """Run a command with a pseudo-terminal of 100 columns, and return its exit code and output."""
    return _on_terminal([*OMNIZARR, *words], typed)


def _on_terminal(command: list[str], typed: str = "") -> tuple[int, str]:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    )
    os.close(theirs)
    if typed:
        os.write(ours, typed.encode())
    parts, end = [], time.monotonic() + 120
    while time.monotonic() < end:
        ready, _, _ = select.select([ours], [], [], 1)
        if ready:
            try:
                data = os.read(ours, 65536)
            except OSError:  # all of the terminal is closed
                break
            if not data:
                break
            parts.append(data)
    os.close(ours)
    return process.wait(60), b"".join(parts).decode()


def plain(text: str) -> str:
    """Return text without the codes of a terminal."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


BAR = """
import time
from omnizarr.cli.terminal import progress_bar, say
with progress_bar({unit!r}) as step:
    if step is None:
        say("no terminal")
    else:
        for done in range(0, 101, 20):
            step(done * 10**6, 10**8, "/deep/t")
            time.sleep(0.15)
say("ready")
"""


def test_progress_on_a_terminal_has_a_rate_and_the_time_left() -> None:
    code, text = _on_terminal([sys.executable, "-c", BAR.format(unit="bytes")])
    assert code == 0
    assert "━" in text  # a bar
    assert re.search(r"\d+\.\d/100\.0 MB", plain(text))
    assert re.search(r"\d+\.\d MB/s", plain(text))
    assert re.search(r"0:00:0\d left", plain(text))
    assert "/deep/t" in text
    assert plain(text).rstrip().endswith("ready")


def test_there_is_no_progress_in_a_pipe() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BAR.format(unit="bytes")], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("no terminal\nready\n", "")


def test_a_command_shows_its_progress_and_erases_it(in_tmp: Path) -> None:
    oz.create_array("a.zarr", data=np.arange(100_000), chunks=(100,))
    code, text = on_terminal("verify", "a.zarr")
    assert code == 0
    assert "━" in text
    assert "\x1b[2K" in text  # the line of the bar is erased


def test_errors_are_coloured_on_a_terminal_unless_no_color(
    in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, text = on_terminal("info", "nothing.zarr")
    assert code == 3
    assert "\x1b[31m" in text
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in on_terminal("info", "nothing.zarr")[1]


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1)])
def test_a_question_comes_before_anything_is_replaced(in_tmp: Path, typed: str, code: int) -> None:
    assert "Replace" not in on_terminal("create", "a.zarr", "--shape", "3")[1]
    found, text = on_terminal("create", "a.zarr", typed=typed)
    assert "a.zarr exists. Replace it? [y/N]" in plain(text)
    assert found == code
    assert isinstance(oz.open("a.zarr"), oz.Group) == (code == 0)


def test_json_holds_what_python_holds() -> None:
    value = {"a": (1, 2.5), "b": float("nan"), "c": [float("-inf")], 3: np.int8(4), "d": Path("x")}
    expected = {"a": [1, 2.5], "b": "NaN", "c": ["-Infinity"], "3": 4, "d": "x"}
    assert json.loads(json.dumps(json_value(value))) == expected


def test_the_reader_of_a_pipe_may_go(in_tmp: Path) -> None:
    oz.create_array("a.zarr", data=np.arange(20_000))
    command = " ".join([*OMNIZARR, "cat", "a.zarr", "|", "head", "-1"])
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout.startswith("[")
    assert "Traceback" not in done.stderr


def test_hierarchies_in_a_folder_are_found_once(in_tmp: Path) -> None:
    root = oz.create_group("lake/b/g.zarr")
    root.create_group("inner").create_array("a", shape=3)
    for number, version in enumerate((1, 2, "3-draft", 3)):
        oz.create_array(f"lake/a/{number}.zarr", shape=3, zarr_format=version)
    Path("lake/meta").write_text("a file that has the name of metadata of version 1")
    Path("lake/link").symlink_to("..", target_is_directory=True)
    Path("lake/linked.zarr").symlink_to("b/g.zarr", target_is_directory=True)
    oz.copy("lake/b/g.zarr", "lake/z.zip")
    assert list(find_hierarchies("lake")) == [
        *(f"lake/a/{number}.zarr" for number in range(4)),
        *("lake/b/g.zarr", "lake/linked.zarr", "lake/z.zip"),
    ]
    assert list(find_hierarchies("lake/b/g.zarr")) == ["lake/b/g.zarr"]
    assert list(find_hierarchies("lake/")) == list(find_hierarchies("lake"))
    assert list(find_hierarchies("none")) == ["none"]


def test_hierarchies_below_the_working_directory_and_the_root_have_short_paths(
    in_tmp: Path,
) -> None:
    oz.create_array("x/a.zarr", shape=3)
    assert list(find_hierarchies(".")) == ["x/a.zarr"]
    assert list(find_hierarchies(str(in_tmp))) == [str(in_tmp / "x/a.zarr")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("out of date; call consolidate_metadata again", "run omnizarr consolidate PATH"),
        ("are used. Call consolidate_metadata again", "are used. Run omnizarr consolidate PATH"),
        ("; the same call with resume=True goes on", "; the same command with --resume goes on"),
        ("have them; give zarr_format=3", "give --zarr-format 3"),
        ("give storage_options={'region': …}", "give --storage-option region=…"),
        (
            "takes storage_options={'client_options': {'allow_http': True}}",
            """--storage-option 'client_options={"allow_http": true}'""",
        ),
        (
            "consent: storage_options={'allow_targets': ['/d']}, or"
            " omnizarr.configure(allow_targets=['/d'])",
            """consent: --storage-option 'allow_targets=["/d"]'""",
        ),
        ("unknown storage_options 'x'", "unknown --storage-option 'x'"),
    ],
)
def test_texts_name_commands_and_options_in_place_of_calls(text: str, shown: str) -> None:
    assert command_text(text).endswith(shown)


def test_secrets_of_urls_are_not_printed(web: Web) -> None:
    oz.save(store := oz.storage.MemoryStore(), np.arange(3))
    web.values |= {f"x.zarr/{key}": store.get(key) or b"" for key in store.list()}
    url = web.url.replace("http://", "http://me:secret@") + "/x.zarr?sig=secret"
    for command in ("info", "head", "stats", "du", "verify", "tree"):
        for as_json in ([], ["--json"]):
            done = run(command, url, *as_json)
            assert "secret" not in done.output + done.stderr, command
    missing = run("info", f"{url}&x", f"{web.url}/none?sig=secret", "--json")
    assert "secret" not in missing.output + missing.stderr
