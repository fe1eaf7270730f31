"""Commands that show metadata and values: info, ls, tree, cat, head and bench."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import omnizarr
from omnizarr.cli.describe import chunk_text, describe, draw_grid, find, shape_text, summary
from omnizarr.cli.options import (
    Options,
    json_option,
    node_option,
    path_argument,
    paths_argument,
    storage_option,
)
from omnizarr.cli.terminal import examples, run_each, say, say_json, show_table
from omnizarr.errors import InvalidArgument, WrongNode
from omnizarr.extension import (
    ArrayModel,
    GroupModel,
    Location,
    Node,
    codec_names,
    file_root,
    list_prefix,
    size_text,
    type_name,
    value_text,
)
from omnizarr.extension import info as summaries
from omnizarr.extension import paths as node_paths

if TYPE_CHECKING:
    from omnizarr import Array


@click.command(
    epilog=examples(
        "omnizarr info ocean.zarr --node temperature",
        "omnizarr info --json s3://bucket/ocean.zarr --storage-option anonymous=true",
    )
)
@paths_argument
@node_option
@click.option("--no-listing", is_flag=True, help="Do not list keys to count chunks and members.")
@json_option
@storage_option
def info(
    paths: tuple[str, ...], node: str, no_listing: bool, as_json: bool, storage_options: Options
) -> None:
    """Show the metadata, codecs, sizes and attributes of PATH.

    Arrays are drawn as a grid of their chunks and shards, in which those that are stored are
    shaded. With many millions of chunks, --no-listing is quicker.
    """

    def work(path: str) -> dict[str, Any]:
        return describe(*find(path, node, storage_options), listing=not no_listing)

    def show(facts: dict[str, Any]) -> None:
        say(summary(facts))
        if facts["attributes"]:
            say(json.dumps(facts["attributes"], indent=2, ensure_ascii=False))
        for line in draw_grid(facts, shutil.get_terminal_size().columns):
            say(line)

    def to_json(facts: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in facts.items() if not name.startswith("_")}

    sys.exit(
        run_each(
            paths, work, show, to_json=to_json, as_json=as_json, storage_options=storage_options
        )
    )


@click.command(
    epilog=examples("omnizarr ls ocean.zarr", "omnizarr ls --long --recursive lake/a.zarr")
)
@paths_argument
@node_option
@click.option("--long", "-l", is_flag=True, help="Show type, shape, chunks, codecs and sizes.")
@click.option("--recursive", "-r", is_flag=True, help="List all nodes below, not only members.")
@json_option
@storage_option
def ls(
    paths: tuple[str, ...],
    node: str,
    long: bool,
    recursive: bool,
    as_json: bool,
    storage_options: Options,
) -> None:
    """List the arrays and groups in PATH.

    Groups end with a slash. With --long, the stored bytes of each array are counted.
    """

    def work(path: str) -> list[dict[str, Any]]:
        location, found = find(path, node, storage_options)
        if isinstance(found, ArrayModel):
            return [_entry(node_paths.name(location.path) or path, location, found, long)]
        return [
            _entry(name, below, child, long) for name, below, child in _members(location, recursive)
        ]

    def show(entries: list[dict[str, Any]]) -> None:
        if not long:
            for entry in entries:
                say(entry["name"] + ("/" if entry["kind"] == "group" else ""))
        elif entries:
            columns = ("type", "shape", "chunks", "codecs", "in memory", "stored", "name")
            show_table(columns, map(_row, entries), right="stored")

    sys.exit(
        run_each(
            paths, work, show, to_json=lambda found: {"entries": found},
            as_json=as_json, storage_options=storage_options,
        )
    )  # fmt: skip


def _members(
    location: Location, recursive: bool, above: str = ""
) -> Iterator[tuple[str, Location, Node | Exception]]:
    below = location.with_listing() if recursive else location
    for name, child in sorted(below.children().items()):
        yield above + name, location.child(name), child
        if recursive and isinstance(child, GroupModel):
            yield from _members(below.child(name), recursive, f"{above}{name}/")


def _entry(name: str, location: Location, node: Node | Exception, long: bool) -> dict[str, Any]:
    if isinstance(node, Exception):
        return {"name": name, "kind": "unreadable", "message": str(node)}
    entry: dict[str, Any] = {"name": name, "kind": node.kind}
    if isinstance(node, ArrayModel):
        entry |= {"shape": list(node.shape), "dtype": type_name(node.data_type)}
        if long:
            facts = describe(location, node)
            entry |= {key: facts.get(key) for key in ("chunks", "shards", "nbytes", "stored")}
            entry["codecs"] = codec_names(node)
    return entry


def _row(entry: dict[str, Any]) -> list[str]:
    name, kind = entry["name"], entry["kind"]
    if kind != "array":
        return [kind, "", "", "", "", "", name + ("/" if kind == "group" else "")]
    memory, stored = entry["nbytes"], entry["stored"]
    return [
        entry["dtype"],
        shape_text(entry["shape"]),
        chunk_text(entry) if entry["chunks"] else "unknown",
        entry["codecs"],
        "" if memory is None else size_text(memory),
        "" if stored is None else size_text(stored["bytes"]),
        name,
    ]


@click.command(epilog=examples("omnizarr tree ocean.zarr", "omnizarr tree --depth 2 --json lake/"))
@paths_argument
@node_option
@click.option(
    "--depth",
    type=click.IntRange(0),
    default=None,
    help="Number of levels to show; all by default.",
)
@json_option
@storage_option
def tree(
    paths: tuple[str, ...],
    node: str,
    depth: int | None,
    as_json: bool,
    storage_options: Options,
) -> None:
    """Show the arrays and groups in PATH as a tree."""

    def work(path: str) -> tuple[Location, Node]:
        return find(path, node, storage_options)

    def show(found: tuple[Location, Node]) -> None:
        if isinstance(found[1], ArrayModel):
            say(summaries.array_line(found[1], found[0]))
        else:
            say(repr(summaries.tree(*found, depth, sys.maxsize)))

    def to_json(found: tuple[Location, Node]) -> dict[str, Any]:
        return {"tree": _branch(node_paths.name(found[0].path), *found, depth)}

    sys.exit(
        run_each(
            paths, work, show, to_json=to_json, as_json=as_json, storage_options=storage_options
        )
    )


def _branch(
    name: str, location: Location, node: Node | Exception, depth: int | None
) -> dict[str, Any]:
    """Return a node and all below it for JSON."""
    branch = _entry(name, location, node, long=False)
    if isinstance(node, GroupModel) and depth != 0:
        below = location.with_listing()
        deeper = None if depth is None else depth - 1
        branch["members"] = [
            _branch(child_name, below.child(child_name), child, deeper)
            for child_name, child in sorted(below.children().items())
        ]
    return branch


# Values

_MOST_BYTES = 256 << 20  # to print
_PART = re.compile(r"(-?\d+)?(:(-?\d+)?(:(-?\d+)?)?)?")


def parse_selection(text: str) -> tuple[Any, ...]:
    """Parse what NumPy takes in brackets: integers, slices and ``...``, separated by commas."""
    parts: list[Any] = []
    for part in text.strip().strip("[]").split(","):
        part = part.strip()
        found = _PART.fullmatch(part)
        if part == "...":
            parts.append(...)
        elif not part or found is None:
            raise InvalidArgument(
                f"--select: {part!r} is not an index or a slice; expected such as '0,:10' or"
                " '...,::2'"
            )
        elif found[2] is None:
            parts.append(int(part))
        else:
            parts.append(slice(*(int(n) if n else None for n in part.split(":"))))
    return tuple(parts)


def _open_array(path: str, node: str, options: Options) -> Array:
    found = omnizarr.open(path, path=node, storage_options=options)
    if not isinstance(found, omnizarr.Array):
        names = ", ".join([n for n, _ in found.arrays()][:10])
        held = f"; its arrays are {names}" if names else ""
        raise WrongNode(f"{found.name} in {path} is a group; give an array with --node{held}")
    return found


select_option = click.option(
    "--select", metavar="SELECTION", help="Part of the array, such as 0,:10 or ...,::2."
)


@click.command(
    epilog=examples(
        'omnizarr cat ocean.zarr --node temperature --select "0,:10,:10"',
        "omnizarr cat --json ocean.zarr --node time",
    )
)
@path_argument
@node_option
@select_option
@json_option
@storage_option
def cat(path: str, node: str, select: str | None, as_json: bool, storage_options: Options) -> None:
    """Print all values of the array at PATH, or those of a selection, as NumPy does."""
    array = _open_array(path, node, storage_options)
    _show_values(path, array, (...,) if select is None else parse_selection(select), as_json)


@click.command(
    epilog=examples(
        "omnizarr head ocean.zarr --node temperature", "omnizarr head -n 3 --json ocean.zarr/time"
    )
)
@path_argument
@node_option
@click.option(
    "--number", "-n", type=click.IntRange(1), default=5, show_default=True,
    help="Number of values along each axis.",
)  # fmt: skip
@json_option
@storage_option
def head(path: str, node: str, number: int, as_json: bool, storage_options: Options) -> None:
    """Print the first values of the array at PATH, along each axis, as NumPy does."""
    array = _open_array(path, node, storage_options)
    _show_values(path, array, (slice(number),) * array.ndim, as_json)


def _show_values(path: str, array: Array, selection: tuple[Any, ...], as_json: bool) -> None:
    """Print the values of a selection, all of them."""
    import numpy as np  # noqa: PLC0415 - slow to import, and needed for values only

    size = np.broadcast_to(np.empty((), "u1"), array.shape)[selection].size * array.dtype.itemsize
    if size > _MOST_BYTES:
        raise InvalidArgument(
            f"{array.name} in {path}: {size_text(size)} are too much to print; give a part with"
            " --select, or use `omnizarr export`"
        )
    values = np.asanyarray(array[selection])
    if as_json:
        say_json(
            {
                "path": path,
                "node": array.name,
                "dtype": str(array.dtype),
                "shape": list(values.shape),
                "values": _json_values(values),
            }
        )
        return
    width = shutil.get_terminal_size().columns
    shown = partial(np.array2string, values, threshold=sys.maxsize, max_line_width=max(width, 40))
    try:
        say(shown())
    except OverflowError:  # see `value_text`
        say(shown(formatter={"datetime": value_text}))


def _json_values(values: Any) -> Any:
    """Return values as lists of JSON: complex numbers as pairs, times and raw bytes as text."""
    if values.dtype.kind in "cmMV":
        return _nested(values, value_text) if values.dtype.kind != "c" else _nested(values, _pair)
    return values.tolist()


def _pair(value: Any) -> list[float]:
    return [float(value.real), float(value.imag)]


def _nested(values: Any, convert: Any) -> Any:
    return convert(values[()]) if values.ndim == 0 else [_nested(v, convert) for v in values]


@click.command(
    epilog=examples(
        "omnizarr conformance --array_path=data/int32.zarr",
        'ZARR_CLI="omnizarr conformance" bats tests.bats',
    )
)
@click.option(
    "--array_path", required=True, type=click.Path(path_type=str), help="Folder of the array."
)
def conformance(array_path: str) -> None:
    """Read a whole array and print its values in C order, one on a line.

    This is what the public suite for Zarr implementations (zarr-conformance-tests) runs. The exit
    code is 0 if everything could be read.
    """
    import numpy as np  # noqa: PLC0415 - slow to import, and needed for values only

    for value in np.asanyarray(_open_array(array_path, "", None)[...]).ravel().tolist():
        say(value)


# Speed


@click.command(
    epilog=examples(
        "omnizarr bench ocean.zarr --node temperature",
        'omnizarr bench --json s3://bucket/a.zarr --select ":100" --repeat 5',
    )
)
@path_argument
@node_option
@select_option
@click.option(
    "--repeat", type=click.IntRange(1), default=3, show_default=True, help="Number of warm reads."
)
@json_option
@storage_option
def bench(
    path: str,
    node: str,
    select: str | None,
    repeat: int,
    as_json: bool,
    storage_options: Options,
) -> None:
    """Measure how fast the array at PATH is read.

    The first read is cold as far as this program can make it so: it is preceded by nothing, and
    for local files the system is asked to drop what it has in memory of them. The others are warm,
    and the fastest counts. Without --select, at most about 1 GB is read. MB are millions of bytes
    in memory.
    """
    array = _open_array(path, node, storage_options)
    selection = _first_part(array) if select is None else parse_selection(select)
    dropped = _drop_pages(array)
    seconds = []
    size = 0
    for _ in range(repeat + 1):
        start = time.perf_counter()
        size = array[selection].nbytes
        seconds.append(time.perf_counter() - start)
    cold, warm = seconds[0], min(seconds[1:])
    if as_json:
        say_json(
            {
                "path": path,
                "node": array.name,
                "bytes": size,
                "cold_seconds": cold,
                "warm_seconds": warm,
                "cold_mb_per_s": size / cold / 1e6,
                "warm_mb_per_s": size / warm / 1e6,
                "page_cache_dropped": dropped,
            }
        )
        return
    say(f"{array.name}: {size_text(size)} in memory, {array.dtype}, chunks {array.chunks}")
    how = "" if dropped else "  (what the system has in memory of it could not be dropped)"
    say(f"cold  {size / cold / 1e6:10,.0f} MB/s  {cold:.3f} s{how}")
    say(f"warm  {size / warm / 1e6:10,.0f} MB/s  {warm:.3f} s  (best of {repeat})")


def _first_part(array: Array) -> tuple[Any, ...]:
    """Return whole chunks along the first axis, of about a gigabyte at most."""
    if not array.ndim or array.nbytes <= _MOST_MEASURED:
        return (...,)
    row = max(1, array.nbytes // max(1, array.shape[0]))
    step = (array.shards or array.chunks)[0]
    step = step if isinstance(step, int) else 1
    return (slice(max(step, _MOST_MEASURED // row // step * step)),)


_MOST_MEASURED = 10**9


def _drop_pages(array: Array) -> bool:
    """Ask the system to forget the files of an array; return False where that cannot be done."""
    root = file_root(array.store)
    if root is None or not hasattr(os, "posix_fadvise"):
        return False
    prefix = array._location.format.chunk_prefix(array.path)
    for key in list_prefix(array.store, prefix):
        try:
            file = os.open(root / key, os.O_RDONLY)
        except OSError:  # a value that is no file of its own
            return False
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
    return True
