"""Virtual environments for the packages, and the source trees of their tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from benchmarks.downstream.packages import TEST_TOOLS, Package

CHECKOUT = Path(__file__).parents[2]
INDEX = "https://pypi.org/simple/"


class NotInstalled(Exception):
    """A package or the source of its tests could not be had; the message says why."""


def python_of(environment: Path) -> Path:
    scripts = "Scripts" if sys.platform == "win32" else "bin"
    return environment / scripts / "python"


def prepare(folder: Path, packages: Sequence[Package]) -> Path:
    """Return the Python of an environment with these packages and this checkout.

    An environment that has them is used as it is; delete it to install newer versions.
    """
    environment = folder / packages[0].environment
    python = python_of(environment)
    if not python.exists():
        run([sys.executable, "-m", "venv", str(environment)])
    if any(version(python, package.distribution) is None for package in packages):
        names = [name for package in packages for name in (package.distribution, *package.requires)]
        pip_install(python, "--upgrade", *names, *TEST_TOOLS)
    if location(python, "omnizarr") != CHECKOUT / "src" / "omnizarr":
        pip_install(python, "--editable", str(CHECKOUT))
    return python


def pip_install(python: Path, *arguments: str) -> None:
    run([str(python), "-m", "pip", "--quiet", "install", *arguments])


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstalled((lines or done.stderr.splitlines() or ["no message"])[-1])


def version(python: Path, distribution: str) -> str | None:
    """Return the version of a distribution in an environment, or None if it is not there."""
    program = (
        "import importlib.metadata as m, sys\n"
        "try: print(m.version(sys.argv[1]))\n"
        "except m.PackageNotFoundError: pass"
    )
    return ask(python, program, distribution) or None


def location(python: Path, module: str) -> Path | None:
    """Return the folder of an installed package."""
    program = (
        "import importlib.util as u, sys\n"
        "spec = u.find_spec(sys.argv[1])\n"
        "print(spec.origin if spec else '')"
    )
    origin = ask(python, program, module)
    return Path(origin).parent if origin else None


def ask(python: Path, program: str, *arguments: str) -> str:
    """Return what a program prints, run where no source tree is on its path."""
    command = [str(python), "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=os.sep)
    return done.stdout.strip()


def source(folder: Path, given: Path | None, python: Path, package: Package) -> Path:
    """Return the source tree with the tests of a package.

    A tree of its name below the given folder is used as it is; otherwise it is the sdist of the
    installed version.
    """
    name = package.distribution
    if given is not None and (given / name).is_dir():
        return given / name
    installed = version(python, name)
    target = folder / "sources" / f"{name}-{installed}"
    if not target.is_dir():
        archive = download(folder / "sources", name, f"-{installed}.tar.gz")
        unpacked = target.with_name(target.name + ".partial")
        shutil.rmtree(unpacked, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
        (inner,) = unpacked.iterdir()
        inner.rename(target)
        unpacked.rmdir()
    return target


def download(folder: Path, name: str, ending: str) -> Path:
    """Fetch the sdist with this ending from the package index."""
    page = urljoin(INDEX, f"{name}/")
    with urllib.request.urlopen(page, timeout=60) as answer:
        links = Links(page)
        links.feed(answer.read().decode())
    urls = [url for url in links.urls if urlsplit(url).path.endswith(ending)]
    if not urls:
        raise NotInstalled(f"the package index has no {name}{ending}")
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / Path(urlsplit(urls[0]).path).name
    with urllib.request.urlopen(urls[0], timeout=600) as answer, archive.open("wb") as file:
        shutil.copyfileobj(answer, file)
    return archive


class Links(HTMLParser):
    """The addresses on a page of a package index."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.page = page
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.urls += [urljoin(self.page, value) for key, value in attrs if key == "href" and value]
