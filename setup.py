"""Builds the compiled parts where there is a compiler: the kernel, linked to libblosc2, the string
codec, batches of small files, and blocks of images. Without them Python code does all the work."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from setuptools import Extension, setup

SOURCES = (
    "module",
    "columns",
    "rows",
    "picks",
    "scratch",
    "memory",
    "read",
    "write",
    "shards",
    "sink",
    "codecs",
    "blosc1_decode",
    "blosc1_encode",
    "deflate",
    "snappy",
    "copy",
    "crc32c",
    "zstd",
)


def kernel() -> list[Extension]:
    """The kernel, linked statically to the libblosc2 inside the package blosc2."""
    spec = importlib.util.find_spec("blosc2")
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    for place in places:
        root = Path(place)
        libraries = sorted(root.glob("lib*/libblosc2.a"))
        if libraries and (root / "include" / "blosc2.h").exists():
            return [
                Extension(
                    "omnizarr.engine._kernel",
                    sources=[*(f"src/kernel/{name}.c" for name in SOURCES), "src/files/fresh.c"],
                    depends=[
                        *("src/kernel/kernel.h", "src/kernel/rows.h", "src/kernel/columns.h"),
                        "src/files/fresh.h",
                    ],
                    include_dirs=["src/kernel", "src/files", str(root / "include")],
                    extra_objects=[str(libraries[0])],
                    extra_compile_args=["-O3", "-std=gnu11", "-fvisibility=hidden"],
                    extra_link_args=["-pthread", "-Wl,--exclude-libs,ALL"],
                    libraries=["m", "dl"],
                    optional=True,
                )
            ]
    return []


def strings() -> list[Extension]:
    """vlen-utf8 on NumPy's own strings."""
    spec = importlib.util.find_spec("numpy")
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    include = [str(Path(place) / "_core" / "include") for place in places]
    return [
        Extension(
            "omnizarr.codecs._strings",
            sources=["src/strings/strings.c"],
            include_dirs=include,
            extra_compile_args=["-O3", "-std=gnu11"],
            optional=True,
        )
    ]


def files() -> list[Extension]:
    """Several documents of a directory in one call, and a file that is stored in one."""
    return [
        Extension(
            "omnizarr.stores._files",
            sources=["src/files/files.c", "src/files/fresh.c"],
            depends=["src/files/fresh.h"],
            extra_compile_args=["-O2", "-std=gnu11"],
            optional=True,
        )
    ]


def blocks() -> list[Extension]:
    """Levels of images: means of blocks and the like."""
    return [
        Extension(
            "omnizarr.ops._blocks",
            sources=[f"src/blocks/{name}.c" for name in ("module", "methods", "weigh")],
            depends=["src/blocks/blocks.h"],
            # Products that are added without rounding would differ from NumPy's.
            extra_compile_args=["-O3", "-std=gnu11", "-fvisibility=hidden", "-ffp-contract=off"],
            optional=True,
        )
    ]


setup(ext_modules=[*kernel(), *strings(), *files(), *blocks()])
