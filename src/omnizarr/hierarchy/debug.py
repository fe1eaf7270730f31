"""What to say in a report of a problem."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from omnizarr._version import VERSION
from omnizarr.engine import kernel

PACKAGES = ("numpy", "numcodecs", "crc32c", "deflate", "ml_dtypes", "obstore", "fsspec", "zarr")


def print_debug_info() -> None:
    """Print the versions of omnizarr, Python and the packages it uses, and what was compiled."""
    print(f"omnizarr: {VERSION}")
    print(f"compiled kernel: {'yes' if kernel.available() else 'no'}")
    print(f"python: {sys.version.split()[0]} on {platform.platform()}")
    for package in PACKAGES:
        try:
            print(f"{package}: {version(package)}")
        except PackageNotFoundError:
            print(f"{package}: not installed")
