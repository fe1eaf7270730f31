"""`omnizarr serve`: prints the address, serves, and ends with Ctrl-C."""

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

import pytest
from click.testing import CliRunner

import omnizarr as oz
from omnizarr.cli.main import main


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


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_cleanly(where: Path, signal_: signal.Signals) -> None:
    with _start(str(where), "--port", "0") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.split()[-1]
        assert line == f"serving {where} at {url}\n"
        with urllib.request.urlopen(f"{url}store/zarr.json") as answer:
            assert answer.read() == (where / "zarr.json").read_bytes()
        process.send_signal(signal_)
        _, errors = process.communicate(timeout=60)
        assert "Traceback" not in errors
        assert f"programs open {url}store" in errors
        assert process.returncode in (0, -signal.SIGTERM if signal_ == signal.SIGTERM else 0)


def test_a_random_token_is_part_of_the_address(where: Path) -> None:
    words = ["serve", str(where), "--port", "0", "--seconds", "0", "--token", "random", "--json"]
    found = json.loads(CliRunner().invoke(main, words).stdout)
    assert found["page"] == f"{found['url']}?token={found['token']}"
    assert len(found["token"]) >= 20
    again = json.loads(CliRunner().invoke(main, words).stdout)
    assert again["token"] != found["token"]


def test_the_token_may_come_from_the_environment(where: Path) -> None:
    words = ["serve", str(where), "--port", "0", "--seconds", "0", "--json"]
    runner = CliRunner(env={"OMNIZARR_TOKEN": "abc"})
    assert json.loads(runner.invoke(main, words).stdout)["token"] == "abc"


def test_the_page_is_opened_in_a_browser(where: Path, monkeypatch: Any) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    words = ["serve", str(where), "--port", "0", "--seconds", "0", "--open"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0
    assert opened == [result.stdout.split()[-1]]
