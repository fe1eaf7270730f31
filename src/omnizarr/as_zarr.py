"""Let programs for zarr-python run on omnizarr, unchanged.

>>> import omnizarr
>>> omnizarr.as_zarr()
>>> import zarr  # omnizarr's arrays, groups and functions under zarr-python's names

Call it once, before anything imports zarr; ``omnizarr.as_zarr(undo=True)`` undoes it. From a shell,
``python -m omnizarr.as_zarr script.py …`` or ``-m module …`` runs a program that way, and
``pytest -p omnizarr.as_zarr`` a test suite.
"""

from __future__ import annotations

import os
import runpy
import sys
import types
from typing import Any

from omnizarr import registry

_USAGE = "usage: python -m omnizarr.as_zarr (script.py | -m module) [arguments]"


def as_zarr(*, undo: bool = False) -> None:
    """Put omnizarr in the place of zarr-python in this process; with `undo`, end that.

    ``zarr.core``, ``zarr.abc``, ``zarr.registry``, ``zarr.testing`` and others are still imported
    from the installed zarr-python.

    Args:
        undo: True to end that.

    Raises:
        MissingPackage: If zarr-python is not installed.

    Examples:
        >>> oz.as_zarr()
        >>> import zarr
        >>> type(zarr.zeros(3)).__module__.partition(".")[0]
        'omnizarr'
        >>> oz.as_zarr(undo=True)
    """
    change = "uninstall" if undo else "install"
    registry.load(f"omnizarr.interop.zarr.installing:{change}")()


class _CallableModule(types.ModuleType):
    """This module, which can be called: ``omnizarr.as_zarr()``."""

    def __call__(self, *, undo: bool = False) -> None:
        as_zarr(undo=undo)


sys.modules[__name__].__class__ = _CallableModule


def pytest_load_initial_conftests(early_config: Any, parser: Any, args: list[str]) -> None:
    """Put omnizarr in place before pytest imports the first test module."""
    as_zarr()


def pytest_report_header(config: Any) -> str:
    """Say in the report of pytest that zarr is omnizarr."""
    return "zarr: omnizarr in its place (omnizarr.as_zarr)"


def main(arguments: list[str]) -> None:
    """Run a script or module with omnizarr in the place of zarr-python."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        raise SystemExit(0 if arguments else 2)
    as_zarr()
    if arguments[0] == "-m":
        if len(arguments) < 2:
            raise SystemExit(_USAGE)
        sys.argv = arguments[1:]
        sys.path.insert(0, "")
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        if not os.path.exists(arguments[0]):
            print(f"python -m omnizarr.as_zarr: can't open file {arguments[0]!r}", file=sys.stderr)
            raise SystemExit(2)
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
