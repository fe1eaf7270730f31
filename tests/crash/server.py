"""The process that has the shim preloaded, and its client: one JSON line per request and answer."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("shim.c")


def build(source: Path, folder: Path) -> Path | None:
    """Return the path of a compiled library, or None if there is no compiler, or not on Linux."""
    compiler, made = shutil.which("cc"), folder / f"{source.stem}.so"
    if compiler is None or sys.platform != "linux":
        return None
    words = [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(source), "-ldl"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return made


class Client:
    """Asks the server to run operations."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(
        self, event: str, *, sample: int | None = None, seed: int = 0, **operation: Any
    ) -> list[str]:
        """Return what is bad where an operation is killed, paused, …: everywhere, or at a sample.

        The operation is described as `tests.crash.machine.Run` is.
        """
        source, target = self._process.stdout, self._process.stdin
        assert source is not None
        assert target is not None
        target.write(json.dumps([event, sample, seed, operation]) + "\n")
        target.flush()
        bad, error = json.loads(source.readline() or '[[], "the server has ended"]')
        if error:
            raise RuntimeError(error)
        found: list[str] = bad
        return found


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Client | None]:
    """Run a server whose files are in a folder; None where there can be none."""
    shim = build(SOURCE, folder)
    if shim is None:
        yield None
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.server", str(folder)],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Client(process)
        finally:
            process.terminate()


def main(folder: Path) -> None:
    import omnizarr
    from omnizarr.stores import leases
    from tests.crash.machine import Run

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with its client
    leases.LEASE = 0.5  # seconds; nobody waits long for the leases of dead writers
    omnizarr.config.set(threads=1)  # the same calls in the same order
    gc.freeze()
    runs: dict[str, Any] = {}  # the last one, which several events share
    for line in sys.stdin:
        event, sample, seed, operation = json.loads(line)
        key = json.dumps(operation)
        try:
            if key not in runs:
                for old in runs.values():
                    shutil.rmtree(old.folder, ignore_errors=True)
                runs = {key: Run(folder / "run", **operation)}
            answer = getattr(runs[key], event)(sample, seed), ""
        except Exception:
            answer = [], traceback.format_exc()
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
