"""Packages with their own environment: zarr-python 2, zarrita.js, the newest GDAL, PyTorch.

Each has a folder of its own in the environment of this Python, made by the first test that needs
it. A process of its own answers one question after the other, and is started again if it ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.servers.processes import missing

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FOLDER = Path(sys.prefix) / "peers"
# zarr-python 2 asks for numcodecs before 0.16, which has no wheels for aarch64: compiling takes
# minutes. It is installed without what it asks for, and finds two functions under their old names.
ZARR_2 = ("numcodecs==0.16.*", "numpy", "asciitree", "fasteners", "msgpack")
ZARR_2_ALONE = ("zarr==2.18.7",)
GDAL = ("rasterio",)  # whose wheels bring it
ZARRITA = ("zarrita@0.7",)
# PyPI's builds come with gigabytes for GPUs. Where pip finds one for processors alone, it is used.
TORCH = ("torch==2.13.0+cpu",)
SCRIPT = Path(__file__).with_name("zarrita.mjs")


class PeerError(Exception):
    """The other library raised an error; the text is its own."""


class Server:
    """A process that answers on its standard output what it is asked on its standard input."""

    def __init__(self, *command: object) -> None:
        self._command = [*map(str, command)]
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, question: bytes, answer: Callable[[IO[bytes]], Any]) -> Any:
        """Return what `answer` reads, or raise if the process ends before."""
        if self._process is None or self._process.poll() is not None:
            pipe, null = subprocess.PIPE, subprocess.DEVNULL
            self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=null)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(question)
            process.stdin.flush()
            return answer(process.stdout)
        except (BrokenPipeError, EOFError):
            raise PeerError(f"the process ended with {process.wait()}") from None

    def close(self) -> None:
        """End the process; the next question starts another one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class Python:
    """Another Python with its own packages."""

    modules: tuple[str, ...] = ("numpy as np",)
    before = ""

    def __init__(self, python: Path) -> None:
        self.server = Server(python, "-W", "ignore", "-c", _ANSWER)

    def run(self, source: str, **arguments: Any) -> Any:
        """Run Python source there and return its variable `result`.

        `arguments` are variables of the source; `before` is run and `modules` are imported first.
        Arguments and result are what pickle can carry: plain values and NumPy arrays.
        """
        modules = "".join(f"import {module}\n" for module in self.modules)
        source = f"{self.before}\n{modules}{source}"
        error, result = self.server.ask(pickle.dumps((source, arguments), 5), pickle.load)
        if error:
            raise PeerError(error.strip().rpartition("\n")[2] + "\n" + error)
        return result


class ZarrPython2(Python):
    """zarr-python 2.18.7 with numcodecs 0.16."""

    modules = ("numpy as np", "zarr", "numcodecs")
    before = (
        "import numcodecs.blosc as b\n"
        "b.cbuffer_sizes, b.cbuffer_metainfo = b._cbuffer_sizes, b._cbuffer_metainfo"
    )

    def read(self, path: Path) -> dict[str, Any]:
        """Return every array below a path by its relative path ("" for an array itself).

        The value is an error if an array cannot be read.
        """
        found: dict[str, Any] = self.run(_READ, path=str(path))
        return found


_ANSWER = """
import pickle, sys, traceback
out, sys.stdout = sys.stdout.buffer, sys.stderr
while True:
    try:
        source, names = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    names["result"] = None
    try:
        exec(compile(source, "<test>", "exec"), names)
        answer = pickle.dumps(("", names["result"]), 5)
    except Exception:
        answer = pickle.dumps((traceback.format_exc(), None), 5)
    out.write(answer)
    out.flush()
"""
_READ = """
result = {}
store = zarr.DirectoryStore(path)
def read(at):
    if zarr.storage.contains_array(store, at):
        try:
            result[at] = zarr.open_array(store, path=at, mode="r")[...]
        except Exception as e:
            result[at] = f"{type(e).__name__}: {e}"
    elif zarr.storage.contains_group(store, at):
        for name in sorted(store.listdir(at)):
            if not name.startswith("."):
                read(f"{at}/{name}".lstrip("/"))
read("")
"""


class Gdal(Python):
    """GDAL, in rasterio."""

    modules = ("numpy as np", "rasterio")

    def read(self, path: Path | str, *names: str) -> dict[str, Any]:
        """Return two-dimensional arrays below a path or address, as `ZarrPython2.read` does."""
        place = f"/vsicurl/{path}" if str(path).startswith("http://") else str(path)
        found: dict[str, Any] = self.run(_READ_RASTERS, path=place, names=names)
        return found


_READ_RASTERS = """
import logging
logging.disable()
result = {}
for name in names:
    try:
        with rasterio.open(f'ZARR:"{path}"' + (f":/{name}" if name else "")) as dataset:
            result[name] = dataset.read(1)
    except rasterio.errors.RasterioError as e:
        result[name] = f"{type(e).__name__}: {e}"
"""


class Zarrita:
    """zarrita.js, in node."""

    def __init__(self, folder: Path) -> None:
        self.server = Server("node", folder / SCRIPT.name)

    def read(self, path: Path | str, *names: str) -> dict[str, npt.NDArray[Any] | str]:
        """Return arrays below a path or address; the value is an error if one cannot be read."""
        question = json.dumps([str(path), *names]) + "\n"
        answers = self.server.ask(question.encode(), _read_line)
        found: dict[str, npt.NDArray[Any] | str] = {}
        for name, answer in answers.items():
            if "error" in answer:
                found[name] = answer["error"]
            else:
                dtype = None if answer["type"] == "text" else answer["type"]
                values = np.array(answer["data"], dtype)
                found[name] = values.reshape(answer["shape"])
        return found


def _read_line(file: IO[bytes]) -> Any:
    line = file.readline()
    if not line:
        raise EOFError
    return json.loads(line)


def zarr_python_2() -> ZarrPython2:
    """Install zarr-python 2 if necessary; skip the test if that is impossible."""

    return ZarrPython2(_environment("zarr-python-2", ZARR_2, ("3.11", "3.12"), ZARR_2_ALONE))


def gdal() -> Gdal:
    """Install GDAL if necessary; skip the test if that is impossible."""
    return Gdal(rasterio())


def rasterio() -> Path:
    """Return a Python with rasterio, installed if necessary; skip the test if impossible."""
    return _environment("gdal", GDAL, ("3.13", "3.12", "3.11"))


def zarrita() -> Zarrita:
    """Install zarrita.js if necessary; skip the test if that is impossible."""

    def make(folder: Path) -> None:
        folder.mkdir()
        quiet = ("--silent", "--no-audit", "--no-fund")
        _run("npm", "install", *quiet, "--prefix", folder, *ZARRITA)

    folder = _made("zarrita", ZARRITA, make)
    beside = folder / f"{SCRIPT.name}.{os.getpid()}"
    shutil.copy(SCRIPT, beside)
    beside.replace(folder / SCRIPT.name)  # beside the packages, where node looks for them
    return Zarrita(folder)


def pytorch() -> Path:
    """Return a folder with PyTorch, installed if necessary; skip the test if that is impossible."""

    def make(folder: Path) -> None:
        quick = ("--quiet", "--no-compile", "--only-binary", ":all:")
        _run(sys.executable, "-m", "pip", "install", *quick, "--target", folder, *TORCH)

    return _made("torch", TORCH, make, pytest.skip)


def _environment(
    name: str, needs: tuple[str, ...], versions: tuple[str, ...], alone: tuple[str, ...] = ()
) -> Path:
    """Return the Python of an environment with packages, on the first version available.

    Packages of `alone` are installed without those that they ask for.
    """

    def make(folder: Path) -> None:
        base = next(filter(None, map(_python, versions)), None)
        if base is None:
            raise OSError(f"none of Python {', '.join(versions)} is installed")
        _run(base, "-m", "venv", folder)
        install = (folder / "bin" / "python", "-m", "pip", "install", "--quiet")
        _run(*install, *needs)
        if alone:
            _run(*install, "--no-deps", *alone)

    return _made(name, needs + alone, make) / "bin" / "python"


def _made(
    name: str,
    needs: tuple[str, ...],
    make: Callable[[Path], None],
    missing: Callable[[str], object] = missing,
) -> Path:
    """Return the folder of a peer; one process creates it while others wait."""
    digest = hashlib.sha256("\n".join(needs).encode()).hexdigest()[:12]
    folder = FOLDER / f"{name}-{digest}"
    done = folder / ".done"
    if not done.exists():
        if fcntl is None:
            missing(f"{name} is not set up on this operating system")
        FOLDER.mkdir(exist_ok=True)
        with (FOLDER / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                try:
                    make(folder)
                except (OSError, subprocess.CalledProcessError) as e:
                    missing(f"{name} is not installed (tried: {_reason(e)})")
                done.touch()
    return folder


def _python(version: str) -> str | None:
    """Return a Python of that version, preferably this one."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [*sorted(pyenv.glob(f"{version}.*/bin/python3"), reverse=True)]
    on_path = shutil.which(f"python{version}")
    for candidate in (*found, *([on_path] if on_path else [])):
        if subprocess.run([candidate, "-c", "import venv"], capture_output=True).returncode == 0:
            return str(candidate)
    return None


def _run(*command: object) -> None:
    subprocess.run([*map(str, command)], check=True, capture_output=True, text=True)


def _reason(error: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = (error.stderr or error.stdout or "").strip().splitlines()
        return lines[-1] if lines else str(error)
    return str(error)
