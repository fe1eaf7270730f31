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

import pytest

import omnizarr as oz
from tests.cli.conftest import run


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
