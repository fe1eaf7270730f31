"""`omnizarr completion`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import run

COMMAND = Path(sys.executable).parent / "omnizarr"


def complete(*words: str) -> list[str]:
    """Return what the shell is offered for the last word."""
    environment = {
        **os.environ,
        "_OMNIZARR_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("omnizarr", *words)),
        "COMP_CWORD": str(len(words)),
    }
    code = "import sys; sys.argv = ['omnizarr']; from omnizarr.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    return [line.partition(",")[2] or line for line in done.stdout.splitlines()]


def test_commands_options_and_choices_are_completed() -> None:
    assert {"info"} <= set(complete("in"))
    assert "--json" in complete("info", "--js")
    assert complete("ome", "val") == ["validate"]
    assert complete("create", "--zarr-format", "3-") == ["3-draft"]


def test_paths_are_completed_by_the_shell() -> None:
    assert complete("info", "oce") == ["oce"]  # of the kind "file", which the shell completes


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed(shell: str) -> None:
    script = run("completion", shell).stdout
    assert "_OMNIZARR_COMPLETE" in script
    assert json.loads(run("completion", shell, "--json").stdout)["script"] + "\n" == script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.skipif(not shutil.which("bash") or not COMMAND.exists(), reason="needs bash")
def test_bash_completes_with_the_script(in_tmp: Path) -> None:
    script = run("completion", "bash").stdout
    asked = "COMP_WORDS=(omnizarr consol); COMP_CWORD=1; _omnizarr_completion omnizarr"
    done = subprocess.run(
        ["bash", "-c", f'{script}\n{asked}; echo "$COMPREPLY"'],
        env={**os.environ, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "consolidate", done.stderr
