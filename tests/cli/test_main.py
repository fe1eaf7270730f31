"""Commands, errors and exit codes; docs/generated/commands.md, and what every command has."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import Result

import omnizarr as oz
from omnizarr.cli.answers import Answer, path_command
from omnizarr.cli.jobs import Where, job_options
from omnizarr.cli.main import TARGETS, main
from omnizarr.stores.transfer import MissingValue
from tests.cli.conftest import run
from tests.cli.man import write_pages
from tests.cli.page import MARK, PAGE, SAMPLES, all_commands, generated, json_shape


def test_a_missing_path_is_a_helpful_one_line_error(in_tmp: Path) -> None:
    result = run("info", "nothing.zarr")
    assert result.exit_code == 3
    assert "NodeNotFound" in result.output
    assert "Is the path right?" in result.output
    assert "Traceback" not in result.output
    assert "Is the path right?" in run("validate", "nothing.zarr").output


IMPORTED = """
import sys
from omnizarr.cli.main import main
for words in sys.argv[1:]:
    try:
        main(words.split())
    except SystemExit as e:
        assert e.code == 0, e.code
print(*sys.modules, file=sys.stderr)
"""
SLOW = {"numpy", "numcodecs", "rich", "importlib.metadata", "pycurl", "asyncio", "zipfile"}
SLOW |= {"omnizarr.engine", "omnizarr.cli.conventions", "omnizarr.bulk.job"}


def imported_by(*commands: str) -> tuple[str, set[str]]:
    """Return the output of commands that run in one new process, and what they import."""
    words = [sys.executable, "-c", IMPORTED, *commands]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, set(done.stderr.split())


def test_commands_about_metadata_start_without_slow_modules(ocean: Path) -> None:
    """What a cold start takes is what it imports; NumPy alone takes half of the 200 ms allowed."""
    paths = ("ocean.zarr", "ocean.zarr/deep/t")
    found = imported_by(*(f"{name} {path}" for name in ("info", "ls", "tree") for path in paths))[1]
    assert "omnizarr.cli.inspect" in found
    assert found & (SLOW | {"omnizarr.cli.check"}) == set()


def test_the_help_of_commands_loads_no_slow_modules() -> None:
    names = ("stats", "diff", "du", "convert", "rechunk", "verify")
    found = imported_by(*(f"{name} --help" for name in names))[1]
    assert "omnizarr.cli.check" in found
    assert found & SLOW == set()


def test_help_names_every_command_in_a_line_that_fits() -> None:
    text, found = imported_by("--help")
    lines = [line.split() for line in text.splitlines() if line.startswith("  ")]
    assert set(TARGETS) <= {words[0] for words in lines}
    for words in lines:
        assert words[0] not in TARGETS or words[-1].endswith(".")
        assert not words[-1].endswith("...")
    modules = {f"omnizarr.cli.{target.partition(':')[0]}" for target in TARGETS.values()}
    assert found & modules == set()


def test_a_misspelt_command_or_option_gets_a_suggestion(in_tmp: Path) -> None:
    for words, meant in (
        (("inf",), "'info'"),
        (("ome", "valdate"), "'validate'"),
        (("info", "--jsn", "x"), "--json"),
    ):
        done = run(*words)
        assert done.exit_code == 2
        assert "did you mean" in done.output.lower()
        assert meant in done.output


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException, *words: str) -> Result:
    """Run a command that raises an error, with a job's options."""

    @click.command()
    @job_options
    def broken(where: Where, storage_options: None) -> None:
        raise error

    monkeypatch.setitem(main.commands, "broken", broken)
    return run("broken", *words)


@pytest.mark.parametrize(
    ("error", "code", "texts"),
    [
        (KeyboardInterrupt(), 4, ["interrupted by SIGINT: ", "--resume"]),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            3,
            ["No space left", "--resume"],
        ),
        (ConnectionResetError("reset by peer"), 3, ["reset by peer", "--resume"]),
        (MemoryError("800 GB"), 3, ["MemoryError: 800 GB"]),
        (oz.NodeExists("give overwrite=True"), 3, ["NodeExists: give --overwrite"]),
        (oz.InvalidArgument("no such mode"), 2, ["InvalidArgument: no such mode"]),
        (ZeroDivisionError("oops"), 3, ["internal error: ZeroDivisionError: oops", "--debug"]),
    ],
)
def test_an_error_is_one_line_with_advice_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, texts: list[str]
) -> None:
    result = failing(monkeypatch, error)
    assert result.exit_code == code
    assert result.output.count("\n") == 1
    assert all(text in result.output for text in texts), result.output


def test_a_full_disk_behind_an_error_of_the_library_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = oz.StoreError("cannot write 'c/0'")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert "--resume" in failing(monkeypatch, error).output


def test_debug_shows_a_traceback_before_or_after_the_command(in_tmp: Path) -> None:
    for words in (("--debug", "info", "nothing"), ("info", "nothing", "--debug")):
        result = run(*words)
        assert result.exit_code == 3
        assert "Traceback" in result.output
        assert "NodeNotFound" in result.output
    assert "Traceback" not in run("info", "nothing", "--", "--debug").output


def test_trace_shows_what_a_command_cost_also_if_it_fails(in_tmp: Path) -> None:
    oz.create_array("a.zarr", data=[1, 2, 3, 4], chunks=2)
    for words in (("--trace", "stats", "a.zarr"), ("stats", "a.zarr", "--trace")):
        result = run(*words)
        assert "chunks read" in result.stderr
        assert "chunks read" not in result.stdout
    told = json.loads(run("stats", "a.zarr", "--trace", "--json").stderr)
    assert told["total"]["chunks_read"] == 2
    assert "\ntotal\n" in run("info", "nothing", "--trace").stderr


def every_command() -> list[list[str]]:
    return [name.split() for name, _ in all_commands(main)]


def test_wrong_usage_with_json_is_an_object_for_every_command(in_tmp: Path) -> None:
    commands = [[], *every_command()]
    assert ["ome", "validate"] in commands
    for words in commands:
        result = run(*words, "--json", "--no-such-option")
        assert result.exit_code == 2, words
        assert set(json.loads(result.stdout)) == {"error", "message"}, words
        assert json.loads(result.stdout)["error"] == "InvalidArgument"
    assert run("info", "--no-such-option", "--", "--json").stdout == ""


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (OSError(errno.EACCES, "Permission denied", "secret.zarr"), "StoreError"),
        (MissingValue("gone"), "StoreError"),  # a class of ours that is not public
        (ImportError("no module"), "MissingModule"),
        (MemoryError(), "OmnizarrError"),
        (ZeroDivisionError(), "OmnizarrError"),
        (KeyboardInterrupt("SIGTERM"), "OmnizarrError"),
        (click.Abort(), "OmnizarrError"),
        (click.UsageError("give one"), "InvalidArgument"),
        (oz.NodeExists("there"), "NodeExists"),
    ],
)
def test_the_error_in_json_is_one_that_programs_know(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, name: str
) -> None:
    plain, result = failing(monkeypatch, error), failing(monkeypatch, error, "--json")
    assert (plain.exit_code, plain.stdout) == (result.exit_code, "")
    found = json.loads(result.stdout)
    assert found["error"] == name
    assert name in oz.errors.__all__
    assert found.get("path") == getattr(error, "filename", None)


def test_results_are_printed_when_they_are_there_also_before_an_interruption(
    monkeypatch: pytest.MonkeyPatch, in_tmp: Path
) -> None:
    @path_command(name="look")
    def look(path: str, **_: object) -> Answer:
        if path == "stop":
            raise KeyboardInterrupt("SIGTERM")
        if path == "bad":
            raise oz.NodeNotFound("nothing")
        return Answer({"n": 1}, bool)

    monkeypatch.setitem(main.commands, "look", look)
    result = run("look", "a", "bad", "b", "stop", "--json")
    assert result.exit_code == 4
    assert result.stdout.splitlines()[1:3] == ['{"path": "a", "n": 1},', '{"path": "b", "n": 1}']
    found = json.loads(result.stdout)
    assert [each["path"] for each in found["failures"]] == ["bad"]
    assert found["message"].startswith("interrupted by SIGTERM: ")


def test_a_failure_names_the_path_that_was_given(in_tmp: Path) -> None:
    for words in (("cat", "no.zarr"), ("rechunk", "no.zarr", "b.zarr"), ("copy", "no.zarr", "b")):
        assert json.loads(run(*words, "--json").stdout)["path"] == "no.zarr"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
def test_output_that_cannot_be_written_is_one_line_for_every_command(
    ocean: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    given = [["--help"], ["--version"], *([*words, "--help"] for words in every_command())]
    given += [["info", "ocean.zarr"], ["info", "ocean.zarr", "--json"], ["cat", "no", "--json"]]
    given += [["verify", "ocean.zarr"], ["copy", "ocean.zarr", "b.zarr", "--json"]]
    for words in given:
        with open("/dev/full", "w") as full, monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", full)
            with pytest.raises(SystemExit) as ended:
                main(words)
        assert ended.value.code == 3, words
        last = capfd.readouterr().err.splitlines()[-1]
        assert last == "StoreError: cannot write to standard output: No space left on device"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
def test_closed_and_full_streams_keep_the_exit_code(ocean: Path) -> None:
    script = 'cd "$1" && "$2" -m omnizarr ls "$3"'
    for end, path, code, text in (
        (">&-", "ocean.zarr", 3, "cannot write to standard output"),
        ("2>&-", "nothing.zarr", 3, ""),
        ("2>/dev/full", "nothing.zarr", 3, ""),
    ):
        words = ["bash", "-c", f"{script} {end}", "-", ocean.parent]
        done = subprocess.run([*words, sys.executable, path], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert text in done.stderr
        assert "Traceback" not in done.stderr


def _interrupt(words: list[str], target: str, number: int) -> tuple[int, str, str]:
    """Run a command, and send it a signal when its target has some files; return what it says."""
    process = subprocess.Popen(
        [sys.executable, "-m", "omnizarr", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell lets programs in the background ignore the signal, and those that they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while sum(len(files) for _, _, files in os.walk(target)) < 50 and time.monotonic() < end:
        if process.poll() is not None:
            break
        time.sleep(0.005)
    os.killpg(process.pid, number)  # all processes, as a terminal and batch systems do
    out, text = process.communicate(timeout=60)
    return process.returncode, out, text


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
@pytest.mark.parametrize(
    ("name", "more"),
    [("SIGINT", ("--workers", "1")), ("SIGTERM", ("--processes", "--workers", "2"))],
)
def test_an_interrupted_job_says_so_and_goes_on_with_resume(
    in_tmp: Path, name: str, more: tuple[str, ...]
) -> None:
    rng = np.random.default_rng(0)
    words = ["rechunk", "a.zarr", "b.zarr", "--chunks", "50,4", "--json", *more]
    for size in (1, 2, 4, 8, 16):  # it may end before the signal comes
        data = rng.integers(0, 1000, (1000 * size, 200))
        oz.create_array("a.zarr", data=data, chunks=(4, 50), overwrite=True)
        code, out, text = _interrupt(words, "b.zarr", signal.Signals[name])
        if code:
            break
        shutil.rmtree("b.zarr")
    assert code == 4, text
    assert text.startswith(f"interrupted by {name}: ")
    assert "--resume" in text.splitlines()[0]
    assert f"interrupted by {name}" in json.loads(out)["message"]
    assert run("info", "b.zarr").exit_code == 3  # nothing unfinished is visible
    done = run(*words[:-3], "--resume")
    assert done.exit_code == 0, done.output
    assert np.array_equal(oz.open("b.zarr")[...], data)


SLOW_END = """
import signal, time
import click
from omnizarr.cli.main import main
from omnizarr.cli.options import json_option

@click.command()
@json_option
def slow():
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        print("ending", flush=True)
        signal.raise_signal(signal.SIGINT)
        time.sleep(60)

main.commands["slow"] = slow
main(["slow", "--json"])
"""


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_a_second_signal_ends_at_once() -> None:
    words = [sys.executable, "-c", SLOW_END]
    done = subprocess.run(words, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout) == (4, "ending\n")
    assert done.stderr == "interrupted again: ended at once\n"


def test_signals_are_handled_as_before_when_a_command_has_ended(ocean: Path) -> None:
    numbers = signal.SIGINT, signal.SIGTERM
    before = [*map(signal.getsignal, numbers)]
    assert run("ls", "ocean.zarr").exit_code == 0
    assert [*map(signal.getsignal, numbers)] == before


def test_text_that_no_encoding_has_is_printed_escaped(in_tmp: Path) -> None:
    oz.save("a.zarr", np.arange(3), attributes={"name": "\ud800"})
    shown = run("attrs", "a.zarr")
    assert (shown.exit_code, json.loads(shown.stdout)) == (0, {"name": "\ud800"})


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_groff_accepts_the_manual_pages_without_a_warning(tmp_path: Path) -> None:
    pages = write_pages(tmp_path)
    assert {f"omnizarr-{name}.1" for name in TARGETS} <= {page.name for page in pages}
    words = ["groff", "-man", "-ww", "-Tascii", "-P-cbou"]
    done = subprocess.run([*words, *pages], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    copy = subprocess.run([*words, tmp_path / "omnizarr-copy.1"], capture_output=True, text=True)
    assert "omnizarr copy [OPTIONS] SOURCE... DESTINATION" in copy.stdout
    assert "omnizarr copy run.zarr small.zarr --include 'temp*' --exclude" in copy.stdout


COMMANDS = {n: c for n, c in all_commands(main) if not isinstance(c, click.Group)}


def test_the_page_is_made_from_the_commands() -> None:
    """``python -m tests.cli.page`` rewrites it."""
    assert PAGE.read_text(encoding="utf-8").partition(MARK)[2] == generated()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_ends_with_two_examples(name: str) -> None:
    epilog = COMMANDS[name].epilog or ""
    lines = [line.strip() for line in epilog.splitlines()]
    assert sum(f"omnizarr {name}" in line for line in lines) >= 2


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_json_that_is_documented(name: str) -> None:
    options = {parameter.name for parameter in COMMANDS[name].params}
    assert "as_json" in options
    assert name in SAMPLES


def test_shapes_of_json_are_merged() -> None:
    assert json_shape([{"a": 1}, {"a": None, "b": [True, "x"]}]) == (
        "{\n  a: number or null\n  b?: [boolean or text]\n}"
    )
    assert json_shape([{"attributes": {"x": 1}, "e": []}]) == "{\n  attributes: {…}\n  e: […]\n}"
    assert json_shape([{"/a/b": 1, "/c": 2.5}]) == "{…: number}"
