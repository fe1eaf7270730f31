"""Build the compiled modules where that is possible: the kernel, linked to libblosc2, the string
codec, calls on small files, members of JSON objects, and reductions of image blocks. Python code
does the work of those that are left out, which the build says.

OMNIZARR_STRICT_BUILD=1, which `make test` and `make sanitize` set, turns warnings into errors and a
module that cannot be built into a failure. The branches for macOS and Windows are untried.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

STRICT = os.environ.get("OMNIZARR_STRICT_BUILD") == "1"
WINDOWS, MACOS = sys.platform == "win32", sys.platform == "darwin"
INCLUDE = "src/include"


def package_folder(name: str) -> Path | None:
    """Return the folder of an installed package without importing it."""
    spec = importlib.util.find_spec(name)
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    return Path(folders[0]) if folders else None


def leave_out(module: str, reason: str, strict: bool = STRICT) -> list[Extension]:
    """Say that a module is not built; fail in a strict build, unless no build can have it here."""
    message = f"omnizarr: {module} is not built, Python code does its work: {reason}"
    if strict:
        raise SystemExit(message)
    print(message, file=sys.stderr)
    return []


def extension(
    module: str,
    sources: list[str],
    headers: list[str],
    include: list[str] | None = None,
    flags: list[str] | None = None,
    **options: list[str],
) -> Extension:
    """Return a module of files and folders below src/."""
    strict = ["-Wall", "-Wextra", "-Werror", "-isystem", sysconfig.get_path("include")]
    system = [flag for folder in include or [] for flag in ("-isystem", folder)]
    folders = [*headers, INCLUDE]
    return Extension(
        module,
        sources=[str(file) for source in sources for file in sorted(Path().glob(source))],
        depends=[str(file) for folder in folders for file in sorted(Path(folder).rglob("*.h"))],
        include_dirs=[*folders, *(include or [])] if WINDOWS else folders,
        extra_compile_args=["/O2", "/std:c11"]
        if WINDOWS
        else [
            *("-O3", "-std=gnu11", "-fvisibility=hidden"),
            *(flags or []),
            *system,
            *(strict if STRICT else []),
        ],
        optional=not STRICT,
        **options,
    )


def kernel() -> list[Extension]:
    """The kernel, linked statically to the libblosc2 inside the package blosc2."""
    module = "omnizarr.engine._kernel"
    if WINDOWS:
        return leave_out(module, "it needs POSIX files and threads", strict=False)
    blosc2 = package_folder("blosc2")
    if blosc2 is None:
        return leave_out(module, "the package blosc2 is not installed")
    libraries = sorted(blosc2.glob("lib*/libblosc2.a"))
    if not libraries or not (blosc2 / "include" / "blosc2.h").exists():
        return leave_out(module, "the package blosc2 contains no static library or no header")
    # The functions of libblosc2 must not be mixed up with those of another copy in the process.
    hide = "-Wl,-exported_symbol,_PyInit__kernel" if MACOS else "-Wl,--exclude-libs,ALL"
    return [
        extension(
            module,
            ["src/kernel/*/*.c", "src/files/atomic_file.c"],
            ["src/kernel", "src/files"],
            include=[str(blosc2 / "include")],
            extra_objects=[str(libraries[0])],
            extra_link_args=["-pthread", hide],
            libraries=["m"] if MACOS else ["m", "dl"],
        )
    ]


def strings() -> list[Extension]:
    """The codec vlen-utf8 on NumPy's own strings."""
    module = "omnizarr.codecs._strings"
    numpy = package_folder("numpy")
    if numpy is None:
        return leave_out(module, "NumPy is not installed")
    include = [str(numpy / "_core" / "include")]
    return [extension(module, ["src/strings/*.c"], ["src/strings"], include=include)]


def files() -> list[Extension]:
    """Reading and atomically replacing small files, in one call each."""
    module = "omnizarr.stores._files"
    if WINDOWS:
        return leave_out(module, "it needs POSIX files", strict=False)
    return [extension(module, ["src/files/*.c"], ["src/files"])]


def members() -> list[Extension]:
    """The places of the members of JSON objects."""
    return [extension("omnizarr._members", ["src/json/*.c"], ["src/json"])]


def blocks() -> list[Extension]:
    """Levels of images: means of blocks and the like."""
    # Products that are added without rounding would differ from NumPy's.
    flags = ["-ffp-contract=off"]
    return [extension("omnizarr.bulk._blocks", ["src/blocks/*.c"], ["src/blocks"], flags=flags)]


class Build(build_ext):
    """Builds extensions, and says what becomes of one that cannot be built."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception:
            if not STRICT:
                leave_out(ext.name, "compiling or linking failed, see above")
            raise  # which setuptools reports and, for optional extensions, ignores


setup(
    ext_modules=[*kernel(), *strings(), *files(), *members(), *blocks()],
    cmdclass={"build_ext": Build},
)
