"""The version of the package, readable without importing it, and of all that it works with."""

from __future__ import annotations

from typing import TextIO

VERSION = "0.1.0"

# The compiled modules of setup.py, and the work that Python code does where they are missing.
COMPILED = {
    "engine._kernel": "reads and writes of chunks",
    "codecs._strings": "text of variable length",
    "stores._files": "small files",
    "_members": "members of large JSON documents",
    "bulk._blocks": "levels of images",
}


def show_versions(file: TextIO | None = None) -> None:
    """Print versions of omnizarr, Python and packages, its compiled parts, and the machine.

    Bug reports should contain this text. `print_debug_info`, zarr-python's name, is the same.

    Args:
        file: Where to print: an open text file. By default standard output.

    Examples:
        >>> oz.show_versions()
        omnizarr: ...
    """
    print("\n".join(_lines()), file=file)


def _lines() -> list[str]:
    # Only this report needs them, and they take long to import.
    import platform  # noqa: PLC0415
    import sys  # noqa: PLC0415
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    from omnizarr import config  # noqa: PLC0415

    try:
        required = requires("omnizarr") or []
    except PackageNotFoundError:  # not installed: run from its sources
        required = []
    memory = config.memory()
    lines = [
        f"omnizarr: {VERSION} in {Path(__file__).parent}",
        f"python: {platform.python_version()} ({platform.python_implementation()}) in {sys.prefix}",
        f"platform: {platform.platform()}",
        f"processors: {config.processors()}",
        f"memory: {'no limit' if memory is None else f'{memory / 2**30:.1f} GiB'}",
        "",
        "Compiled parts (Python code does the work of those that are missing)",
        *(f"{name}: {_compiled(name)}, for {work}" for name, work in COMPILED.items()),
    ]
    needed, optional = _packages(required)
    lines += ["", "Required packages", *(f"{name}: {_version(name)}" for name in sorted(needed))]
    lines += ["", "Optional packages"]
    for name in sorted({*optional, "zarr"}):
        extras = ", ".join(sorted(optional.get(name, ())))
        lines.append(f"{name}: {_version(name)}{f' (extra {extras})' if extras else ''}")
    return lines


def _compiled(name: str) -> str:
    """Return "yes", or "no" with the reason why a compiled module cannot be imported."""
    from importlib import import_module  # noqa: PLC0415

    try:
        import_module(f"omnizarr.{name}")
    except ModuleNotFoundError:
        return "no"
    except ImportError as error:  # such as one for another version of Python or the C library
        return f"no ({error})"
    return "yes"


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _packages(required: list[str]) -> tuple[set[str], dict[str, set[str]]]:
    """Return the names of required packages, and the extras of each optional one."""
    import re  # noqa: PLC0415

    needed: set[str] = set()
    optional: dict[str, set[str]] = {}
    for line in required:
        name = re.split(r"[^\w.-]", line)[0]
        extra = re.search(r"extra\s*==\s*['\"]([\w.-]+)['\"]", line)
        if extra is None:
            needed.add(name)
        elif name != "omnizarr" and extra[1] != "testing":
            optional.setdefault(name, set()).add(extra[1])
    return needed, optional
