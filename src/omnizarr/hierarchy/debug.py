"""What to say in a report of a problem."""

from __future__ import annotations

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version

from omnizarr._version import VERSION
from omnizarr.engine import kernel


def print_debug_info() -> None:
    """Print the versions of omnizarr, Python and the packages it uses, and what was compiled."""
    print(f"omnizarr: {VERSION}")
    print(f"compiled kernel: {'yes' if kernel.available() else 'no'}")
    print(f"python: {sys.version.split()[0]} on {platform.platform()}")
    for package in (*_packages(), "zarr"):
        try:
            print(f"{package}: {version(package)}")
        except PackageNotFoundError:
            print(f"{package}: not installed")


def _packages() -> list[str]:
    """Return the names of the packages that this one needs, or has a use for."""
    try:
        lines = requires("omnizarr") or []
    except PackageNotFoundError:  # run from a directory of sources
        lines = []
    names = {re.split(r"[^\w.-]", line)[0] for line in lines if "'testing'" not in _marker(line)}
    return sorted(names)


def _marker(line: str) -> str:
    return line.partition(";")[2].replace('"', "'")
