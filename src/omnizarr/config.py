"""Settings, and the limits of the machine from which their defaults follow.

>>> import omnizarr
>>> with omnizarr.configure(v1_order="writer"):
...     ...
>>> omnizarr.config.set(threads=4)
>>> omnizarr.config.get("threads")
4
"""

from __future__ import annotations

import copy
import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, TextIO, overload

from omnizarr._json import freeze
from omnizarr.errors import InvalidArgument, known_names

VERSION = "0.1.0"

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def processors(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int:
    """Return the number of processors that this process may use: by affinity and by quota."""
    known = hasattr(os, "sched_getaffinity")
    count = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    for quota, period in _limits("cpu.max", 2, root, membership):
        count = min(count, max(1, quota // period))
    return count


def memory(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """Return the bytes of memory that this process may use, or None if there is no limit."""
    found = []
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in ("memory.max", "memory.high"):
        found += [limit for (limit,) in _limits(name, 1, root, membership)]
    return min((n for n in found if n > 0), default=None)


def _limits(name: str, count: int, root: Path, membership: Path) -> Iterator[list[int]]:
    """Yield the limits in files of this process's control group (version 2) and its parents."""
    path = ""
    with suppress(OSError):  # not Linux, or not readable
        for line in membership.read_text().splitlines():
            path = line[3:] if line.startswith("0::") else path
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    for depth in range(len(parts) + 1):
        with suppress(OSError, ValueError):  # no such file, or "max"
            found = [*map(int, root.joinpath(*parts[:depth], name).read_text().split())]
            if len(found) == count and min(found) > 0:
                yield found


MAX_THREADS = 16
IN_FLIGHT = 2**27
REQUESTS = 512
MAX_UNPACKED = 2**32
CODECS = ("fast", "portable")
ANY_TARGET = "*"
_BYTES = re.compile(r"\s*([\d.]+)\s*(?:([kMGT]?)(i?)B)?\s*", re.IGNORECASE)


def byte_size(size: int | str, what: str) -> int:
    """Return the bytes in ``"100MB"``, ``"1 MiB"``, ``"512kB"`` or a number; errors name `what`."""
    if type(size) is int and size >= 0:
        return size
    match = _BYTES.fullmatch(size) if isinstance(size, str) else None
    try:
        number = float(match[1]) if match else 0.0
    except ValueError:
        number = 0.0
    if match is None or number <= 0:
        raise InvalidArgument(f"{what}: {size!r} is not a size such as '1MB' or '512 KiB'")
    power = " kmgt".index((match[2] or " ").lower())
    return max(1, int(number * (1024 if match[3] else 1000) ** power))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ByteBudget:
    """The bytes that something may hold; its contents are released when the setting ends."""

    nbytes: int


def _share(part: int, least: int, most: int) -> int:
    """Return a part of the memory, between two limits."""
    granted = memory()
    return most if granted is None else max(least, min(most, granted // part))


def _requests() -> int:
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return REQUESTS
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # each request has a connection
    return REQUESTS if files == resource.RLIM_INFINITY else max(1, min(REQUESTS, files // 2))


@dataclass(frozen=True, slots=True)
class Config:
    """All settings and their defaults."""

    # The threads that all reads and writes of this process use together; by default one for each
    # processor. Threads that call the library count, and never wait.
    threads: int = field(default_factory=lambda: min(MAX_THREADS, processors()))
    # Bytes fetched ahead of decoding, for all reads together.
    in_flight: int = field(default_factory=lambda: _share(16, 2**20, IN_FLIGHT))
    # Requests to servers that run at a time, at most, for all reads and writes together. Latency,
    # not the number of processors, makes many of them worthwhile; near servers get fewer. By
    # default 512, or half the files that this process may open.
    requests: int = field(default_factory=_requests)
    # Bytes of decoded chunks and shard indexes cached for the next read.
    chunk_cache: ByteBudget | None = None
    # The largest decoded chunk if its size is not known beforehand, as with text: an eighth of
    # the memory, at most 4 GiB.
    max_unpacked: int = field(default_factory=lambda: _share(8, 2**26, MAX_UNPACKED))
    # The engine: the compiled kernel if it supports an array's layout, or never.
    engine: Literal["auto", "reference"] = (
        "reference" if os.environ.get("OMNIZARR_ENGINE") == "reference" else "auto"
    )
    # The durability of files: "rename" survives the end of the program at any moment; "fsync" also
    # waits for the disk, and survives a power failure.
    durability: Literal["rename", "fsync"] = "rename"
    # The use of an unknown data type's fallback (draft of version 3).
    fallback: Literal["warn", "use", "refuse"] = "warn"
    # Version 1, order F: "text" follows the specification; "writer" follows zarr 1.1.0, which
    # stored C-order bytes except with Blosc.
    v1_order: Literal["text", "writer"] = "text"
    # True if chunks that contain only the fill value are stored.
    write_empty_chunks: bool = False
    # The default codecs of new arrays: "fast" (Blosc, and crc32c in version 3),
    # "portable" (what GDAL reads too: zstd with its checksum in version 3), or a list of codecs.
    codecs: str | tuple[Any, ...] = "fast"
    # The format of new hierarchies: 1, 2, 3 or "3-draft".
    zarr_format: int | str = 3
    # The draft: True if creating a node also writes metadata of the groups above it, which exist
    # without them.
    explicit_groups: bool = False
    # Folders and URLs outside the folder of references from
    # which targets may be read; True for any.
    allow_targets: tuple[str, ...] = ()
    # Where costs are counted, and the array that is read or written: `omnizarr.trace` sets it.
    trace: tuple[Any, Any] | None = field(default=None, repr=False)


_ALLOWED: dict[str, tuple[object, ...]] = {
    "zarr_format": (1, 2, 3, "1", "2", "3", "3-draft"),
    "engine": ("auto", "reference"),
    "durability": ("rename", "fsync"),
    "fallback": ("warn", "use", "refuse"),
    "v1_order": ("text", "writer"),
}
_NAMES = {f.name for f in dataclasses.fields(Config)} - {"trace"}
_default = Config()
_current: ContextVar[Config | None] = ContextVar("omnizarr_config", default=None)


@overload
def get() -> Config: ...
@overload
def get(key: str) -> Any: ...
def get(key: str | None = None) -> Any:
    """Return the settings in force here, or one of them."""
    settings = _current.get() or _default
    if key is not None and key not in _NAMES:
        raise KeyError(f"unknown setting {key!r}; {known_names(key, sorted(_NAMES))}")
    return settings if key is None else getattr(settings, key)


@contextmanager
def configure(**changes: Any) -> Iterator[Config]:
    """Change settings inside a ``with`` block (in this thread or task only).

    Args:
        **changes: Settings by name, such as ``threads=4``; see `config.Config`.

    Yields:
        The settings in the block.

    Raises:
        InvalidArgument: If there is no such setting, or it cannot have the value.

    Examples:
        >>> with oz.configure(threads=2, zarr_format=2):
        ...     oz.create_array(shape=3).zarr_format
        2
    """
    changes = _checked(changes)
    settings = dataclasses.replace(get(), **changes)
    token = _current.set(settings)
    try:
        yield settings
    finally:
        _current.reset(token)


class set:
    """Change settings permanently, in all threads; as ``with set(...)`` until the block ends."""

    def __init__(self, **changes: Any) -> None:
        changes = _checked(changes)
        self._before = {name: getattr(_default, name) for name in changes}
        _change(changes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        _change(self._before)


def reset() -> None:
    """Restore the defaults, in all threads."""
    global _default
    _default = Config()


def _change(changes: dict[str, Any]) -> None:
    global _default
    _default = dataclasses.replace(_default, **changes)
    here = _current.get()
    if here is not None:
        _current.set(dataclasses.replace(here, **changes))


def _checked(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes in the form that `Config` stores; raise if one is not valid."""
    found = dict(changes)
    for name, value in changes.items():
        if name not in _NAMES:
            known = known_names(name, sorted(_NAMES))
            raise InvalidArgument(f"unknown setting {name!r}; {known}")
        if name in _ALLOWED and value not in _ALLOWED[name]:
            raise InvalidArgument(f"{name} must be one of {_ALLOWED[name]}, got {value!r}")
        if name in ("threads", "requests") and (type(value) is not int or value < 1):
            raise InvalidArgument(f"{name} must be an integer of at least 1, got {value!r}")
        if name == "allow_targets":
            found[name] = target_places(value)
        if name == "codecs" and value not in CODECS:
            if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
                names = " or ".join(map(repr, CODECS))
                raise InvalidArgument(f"codecs must be {names} or a list of codecs, got {value!r}")
            found[name] = tuple(map(freeze, copy.deepcopy(list(value))))  # shared by later arrays
        if name in ("in_flight", "max_unpacked"):
            found[name] = max(1, byte_size(value, name))
        if name == "chunk_cache" and not isinstance(value, ByteBudget):
            nbytes = 0 if value is None else byte_size(value, name)
            found[name] = ByteBudget(nbytes) if nbytes else None
    return found


def target_places(given: Any) -> tuple[str, ...]:
    """Return folders and URLs from which targets of references may be read; ``*`` means any."""
    if given is None or isinstance(given, bool):
        return (ANY_TARGET,) if given else ()
    listed = [given] if isinstance(given, (str, os.PathLike)) else given
    several = isinstance(listed, Iterable) and not isinstance(listed, Mapping)
    places = [
        os.fspath(e) if isinstance(e, os.PathLike) else e for e in (listed if several else ())
    ]
    if not several or not all(isinstance(each, str) and each for each in places):
        raise InvalidArgument(f"allow_targets must be a list of folders and URLs, got {given!r}")
    return tuple(places)


def inherit(settings: Config | None) -> Config | None:
    """Use `settings` (None: the defaults) in this thread, a worker; return the previous ones."""
    before = _current.get()
    _current.set(settings)
    return before


def count(store: object = None, **counts: float) -> None:
    """Add counts of a store, members of `Costs`, to the trace that is on here, if one is."""
    trace = get().trace
    if trace is not None:
        trace[0].add(store, trace[1], counts)


# Versions

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

    Bug reports should contain this text.

    Args:
        file: Where to print: an open text file. By default standard output.

    Examples:
        >>> oz.show_versions()
        omnizarr: ...
    """
    print("\n".join(_versions()), file=file)


def _versions() -> list[str]:
    # Only this report needs them, and they take long to import.
    import platform  # noqa: PLC0415
    import sys  # noqa: PLC0415
    from importlib.metadata import PackageNotFoundError, requires, version  # noqa: PLC0415

    try:
        required = requires("omnizarr") or []
    except PackageNotFoundError:  # not installed: run from its sources
        required = []
    limit = memory()
    lines = [
        f"omnizarr: {VERSION} in {Path(__file__).parent}",
        f"python: {platform.python_version()} ({platform.python_implementation()}) in {sys.prefix}",
        f"platform: {platform.platform()}",
        f"processors: {processors()}",
        f"memory: {'no limit' if limit is None else f'{limit / 2**30:.1f} GiB'}",
        "\nCompiled parts (Python code does the work of missing parts)",
        *(f"{name}: {_compiled(name)}, for {work}" for name, work in COMPILED.items()),
        "\nPackages",
    ]
    used = [line for line in required if not re.search(r"extra\s*==\s*['\"]testing['\"]", line)]
    names = {"zarr", *(re.split(r"[^\w.-]", line)[0] for line in used)} - {"omnizarr"}
    for name in sorted(names):
        try:
            lines.append(f"{name}: {version(name)}")
        except PackageNotFoundError:
            lines.append(f"{name}: not installed")
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
