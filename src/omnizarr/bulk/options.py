"""The options of jobs, each declared once: name, type, default and help.

A class here has the options of one job, which is derived from it: ``class Stats(StatsOptions,
Job[StatsReport])``. Another class joins them with the options of `run`; `takes` gives a function
the arguments of that class, which type checkers and editors know, and the list of them in its
docstring. The command line makes its options from the same fields (`cli.options.options_of`).
Nothing slow is imported here, so that ``--help`` stays quick.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar

if TYPE_CHECKING:
    from omnizarr.extension import On, Part

A = TypeVar("A")
R = TypeVar("R")
P = ParamSpec("P")
Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
Compare: TypeAlias = Literal["time", "size", "checksum"]
Depth: TypeAlias = Literal["present", "checksums", "decode"]
Missing: TypeAlias = Literal["count", "warn", "error"]
SHOW = 10  # differences of an array that are kept with their values


def option(default: A, help: str) -> A:
    """Return the field of an option with its default and its help."""
    made: A = field(default=default, metadata=told(help))
    return made


def told(help: str) -> dict[str, str]:
    """Return the metadata of a field: its help."""
    return {"help": help}


def option_help(options: Any) -> dict[str, str]:
    """Return the help of each option: own before inherited ones, keyword-only ones last."""
    known = {each.name: each for each in fields(options)}
    order = (name for kind in options.__mro__ for name in vars(kind).get("__annotations__", ()))
    names = [name for name in dict.fromkeys(order) if name in known]
    names.sort(key=lambda name: bool(known[name].kw_only))
    return {name: known[name].metadata.get("help", "") for name in names}


def takes(arguments: Callable[P, A]) -> Callable[[Callable[[A], R]], Callable[P, R]]:
    """Return a decorator that lets callers pass an object's arguments in place of the object.

    They are added to the docstring, before the section ``Returns`` or ``Raises``.
    """

    def give(function: Callable[[A], R]) -> Callable[P, R]:
        helps = option_help(arguments)
        known = inspect.signature(arguments).parameters
        signature = inspect.Signature(
            [known[name] for name in helps],
            return_annotation=function.__annotations__["return"],
        )

        @wraps(function)
        def call(*given: P.args, **options: P.kwargs) -> R:
            try:
                signature.bind(*given, **options)
            except TypeError as e:
                raise TypeError(f"{function.__name__}() {e}") from None
            return function(arguments(*given, **options))

        shown: Any = call
        del shown.__wrapped__
        shown.__signature__, shown.takes = signature, arguments
        shown.__doc__ = _with_arguments(function.__doc__ or "", helps)
        return call

    return give


def _with_arguments(text: str, helps: Mapping[str, str]) -> str:
    """Return a docstring with a section ``Args`` before ``Returns`` or ``Raises``."""
    before, section, after = inspect.cleandoc(text).partition("\nReturns:")
    if not section:
        before, section, after = before.partition("\nRaises:")
    lines = [
        textwrap.fill(f"{name}: {help}", 96, initial_indent=" " * 4, subsequent_indent=" " * 8)
        for name, help in helps.items()
    ]
    return "\n".join([before, "Args:", *lines, f"{section}{after}"])


# Options that several jobs have.


@dataclass(kw_only=True)
class RunOptions:
    """The options of `run`: where the tasks of a job run, which of them, and what is told."""

    on: On = option(
        None,
        'Where the tasks run: threads by default, ``"processes"``, an executor of'
        " `concurrent.futures`, or a Dask client.",
    )
    workers: int | None = option(None, "The largest number of threads or processes.")
    resume: bool = option(False, "Finish what an interrupted call began.")
    part: Part | None = option(
        None, "The number of the part to run, from 1, and the number of parts."
    )
    progress: Callable[..., object] | None = option(
        None, "A function that is called with a `jobs.Progress` now and then."
    )


@dataclass(kw_only=True)
class StoreOptions:
    """The options of jobs that open one store."""

    storage_options: Mapping[str, Any] | None = option(
        None, "Options for the stores of URLs, such as credentials."
    )


@dataclass(kw_only=True)
class MemoryOptions(StoreOptions):
    """The options of jobs that hold values in memory."""

    memory: int | str | None = option(
        None, 'Bytes of values that one process may hold at a time; ``"512MB"`` by default.'
    )


@dataclass(kw_only=True)
class WriteOptions(MemoryOptions):
    """The options of jobs that write a hierarchy."""

    overwrite: bool = option(
        False, "Replace existing data at the destination when the result is complete."
    )
    destination_options: Mapping[str, Any] | None = option(
        None, "Options for the store of the destination, instead of `storage_options`."
    )


SOURCE = told("A path, URL, store, array or group.")


# The jobs.


@dataclass
class CopyOptions(WriteOptions):
    """The options of a copy."""

    source: Any = field(metadata=SOURCE)
    destination: Any = field(
        metadata=told("A path, URL, store or `StorePath`, or a group to replace or update.")
    )
    _: KW_ONLY
    path: str = option(
        "", "The path of the node to copy, in the store or below the group; by default that itself."
    )
    update: bool = option(False, "Copy what differs into an existing copy.")
    compare: Compare = option(
        "time",
        'What tells `update` that a value differs: ``"time"`` for size and time or ETag,'
        ' ``"size"``, or ``"checksum"`` for all bytes.',
    )
    delete: bool = option(False, "With `update`, erase all that the source does not have.")
    verify: bool = option(False, "Read every value back after it was written, and compare it.")
    include: Iterable[str] | str = option(
        (), "Patterns of the nodes or keys to copy, such as ``temp*``, ``a/b`` or ``*.json``."
    )
    exclude: Iterable[str] | str = option((), "Patterns of the nodes or keys to leave out.")


@dataclass
class CopyArguments(CopyOptions, RunOptions):
    """The arguments of a copy."""


@dataclass
class ConvertOptions(WriteOptions):
    """The options of `convert`."""

    source: Any = field(metadata=SOURCE)
    destination: Any = option(None, "A path, URL or store; None with `in_place`.")
    _: KW_ONLY
    zarr_format: int | str = option(3, 'The Zarr version to write: 1, 2, 3 or ``"3-draft"``.')
    in_place: bool = option(False, "Add metadata of the new version to the source; keep chunks.")
    remove_old: bool = option(False, "With `in_place`, erase the old metadata.")
    consolidated: bool | None = option(
        None, "Write consolidated metadata, or not; by default as in the source."
    )
    dimension_separator: str | None = option(
        None, "The separator of the chunk keys; by default as in the source."
    )
    checksum: bool = option(
        False, "Keep checksums in version 2, although few other readers support them."
    )
    skip_damaged: bool = option(False, "Skip damaged chunks and list them in the report.")
    verify: bool = option(False, "Read the written values back, and compare them with the source.")


@dataclass
class ConvertArguments(ConvertOptions, RunOptions):
    """The arguments of `convert`."""


@dataclass
class RechunkOptions(WriteOptions):
    """The options of `rechunk`."""

    source: Any = field(metadata=SOURCE)
    destination: Any = option(None, "A path, URL or store; None with `in_place`.")
    _: KW_ONLY
    chunks: Any = option(
        None,
        'The new chunk shape: lengths by dimension name or axis number (``{"time": -1, "lat":'
        " 100}``, -1 for the whole axis; others stay), or any form of `create_array`.",
    )
    shards: Any = option(
        None,
        "The new shard shape, in the same forms; False for none. By default as in the source,"
        " rounded to whole chunks.",
    )
    codecs: Any = option(
        None,
        'Codecs on bytes in place of those in the source, such as ``["zstd"]`` or ``[]``; with a'
        " codec on arrays or from array to bytes among them, the whole list.",
    )
    dtype: Any = option(None, "The new data type, such as ``f4`` or ``int16``.")
    casting: Casting = option(
        "same_kind",
        "The rule of `numpy.can_cast` for `dtype`; values that the type cannot hold are an error"
        ' unless it is ``"unsafe"``.',
    )
    fill_value: Any = option(None, "The new fill value; elements keep their values.")
    rules: Mapping[str, Any] | None = option(
        None,
        'The same options for some arrays, by pattern of path or name: ``{"temp": {"chunks": …},'
        ' "*": {"shards": …}}``. The first pattern that matches counts.',
    )
    passes: int | None = option(None, "The number of passes, 1 or 2; by default the faster.")
    temp: Any = option(
        None, "A path, URL or store for intermediate chunks; by default the destination."
    )
    node: str = option("", "The path of the array or group inside the source.")
    zarr_format: int | str | None = option(
        None, 'The Zarr version to write: 1, 2, 3 or ``"3-draft"``; by default as in the source.'
    )
    in_place: bool = option(False, "Replace the arrays of the source when all are complete.")
    merge: bool = option(
        False, "Add the arrays to the hierarchy at the destination; `overwrite` replaces arrays."
    )


@dataclass
class RechunkArguments(RechunkOptions, RunOptions):
    """The arguments of `rechunk`."""


@dataclass
class VerifyOptions(StoreOptions):
    """The options of `verify`."""

    store: Any = field(metadata=SOURCE)
    _: KW_ONLY
    path: str | None = option(
        None, "The path of the node in the store, or below the group; by default that itself."
    )
    depth: Depth = option(
        "decode",
        'How much to check: ``"present"`` compares sizes and reads shard indexes, ``"checksums"``'
        ' also compares checksums, ``"decode"`` also decodes every chunk.',
    )
    missing: Missing = option(
        "count",
        'With ``"warn"`` or ``"error"``, report each missing chunk with its key, for arrays that'
        " must have every chunk stored; by default, only count them.",
    )
    conventions: bool = option(False, "Check OME-Zarr, CF and GeoZarr where they are declared.")
    sample: float | None = option(
        None, "The fraction of the stored values to check, always the same ones, such as 0.01."
    )


@dataclass
class VerifyArguments(VerifyOptions, RunOptions):
    """The arguments of `verify`."""

    _: KW_ONLY
    resume: bool = option(
        False,
        "Finish what an interrupted call began; if chunks were added or erased since, or are listed"
        " in another order, everything is checked again.",
    )


@dataclass
class StatsOptions(MemoryOptions):
    """The options of `stats`."""

    source: Any = field(metadata=SOURCE)
    _: KW_ONLY
    path: str | None = option(None, "The path of the node in the store; by default the root.")
    bins: int | None = option(None, "The number of bins of a histogram within `range`.")
    range: tuple[float, float] | None = option(None, "The lower and upper end of the histogram.")
    skip_fill: bool = option(False, "Leave out elements that equal the fill value.")


@dataclass
class StatsArguments(StatsOptions, RunOptions):
    """The arguments of `stats`."""


@dataclass
class DiffOptions(MemoryOptions):
    """The options of `diff`."""

    a: Any = field(metadata=SOURCE)
    b: Any = field(metadata=told("Another one."))
    _: KW_ONLY
    path: str | None = option(None, "The path of a node in both.")
    other_path: str | None = option(None, "The path of the node in `b`, if it differs.")
    rtol: float = option(
        0.0,
        "The relative tolerance: values are equal if they differ by at most"
        " ``atol + rtol * abs(b)``.",
    )
    atol: float = option(0.0, "The absolute tolerance.")
    equal_nan: bool = option(True, "NaN is equal to NaN.")
    values: bool = option(True, "Compare values, not only metadata.")
    show: int = option(SHOW, "The number of differences that are kept for each array.")
    other_options: Mapping[str, Any] | None = option(
        None, "Options for the store of `b`, instead of `storage_options`."
    )


@dataclass
class DiffArguments(DiffOptions, RunOptions):
    """The arguments of `diff`."""
