"""Commands that look: info, ls, inventory, tree, cat, explain, head, preview and serve."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import omnizarr
from omnizarr import extension
from omnizarr.cli.answers import Answer, answer, command, find_hierarchies, path_below, path_command
from omnizarr.cli.describe import chunk_text, describe, find, ratio, shape_text, summary
from omnizarr.cli.options import (
    Options,
    json_option,
    node_option,
    parse_pairs,
    path_argument,
    paths_argument,
    storage_option,
    yes_option,
)
from omnizarr.cli.terminal import (
    FAILED,
    OK,
    confirm,
    error_json,
    remark,
    say,
    say_json,
    show_table,
    wants_json,
)
from omnizarr.errors import InvalidArgument, OmnizarrError, WrongNode, known_names
from omnizarr.extension import ArrayModel, GroupModel, Location, Node, size_text, value_text
from omnizarr.extension import info as summaries
from omnizarr.extension import paths as node_paths

if TYPE_CHECKING:
    from omnizarr import Array


@path_command(
    "omnizarr info ocean.zarr --node temperature",
    "omnizarr info --json s3://bucket/ocean.zarr --storage-option anonymous=true",
)
@click.option("--no-listing", is_flag=True, help="Do not list keys to count chunks and members.")
def info(path: str, node: str, no_listing: bool, storage_options: Options) -> Answer:
    """Show the metadata, codecs, sizes and attributes of PATH.

    With many millions of chunks, --no-listing is quicker.
    """
    facts = describe(*find(path, node, storage_options), listing=not no_listing)

    def show() -> None:
        say(summary(facts))
        if facts["attributes"]:
            say(json.dumps(facts["attributes"], indent=2, ensure_ascii=False))

    return Answer(facts, show)


@path_command("omnizarr ls ocean.zarr", "omnizarr ls --long --recursive lake/a.zarr")
@click.option("--long", "-l", is_flag=True, help="Show type, shape, chunks, codecs and sizes.")
@click.option("--recursive", "-r", is_flag=True, help="List all nodes below, not only members.")
def ls(path: str, node: str, long: bool, recursive: bool, storage_options: Options) -> Answer:
    """List the arrays and groups in PATH.

    Groups end with a slash. With --long, the stored bytes of each array are counted.
    """
    location, found = find(path, node, storage_options)
    if isinstance(found, ArrayModel):
        entries = [_entry(node_paths.name(location.path) or path, location, found, long)]
    else:
        entries = [_entry(*member, long) for member in _members(location, recursive)]

    def show() -> None:
        if not long:
            for entry in entries:
                say(entry["name"] + ("/" if entry["kind"] == "group" else ""))
        elif entries:
            show_table(_COLUMNS, map(_row, entries), right=_NUMBERS)

    return Answer({"entries": entries}, show)


def _members(
    location: Location, recursive: bool, above: str = ""
) -> Iterator[tuple[str, Location, Node | Exception]]:
    start = location.with_listing() if recursive else location
    for name, child in sorted(start.children().items()):
        below = start.child(name)
        yield above + name, below.without_listing(), child
        if recursive and isinstance(child, GroupModel):
            yield from _members(below, recursive, f"{above}{name}/")


def _entry(
    name: str, location: Location, node: Node | Exception, long: bool, listing: bool = True
) -> dict[str, Any]:
    if isinstance(node, Exception):
        return {"name": name, "kind": "unreadable", "message": str(node)}
    entry: dict[str, Any] = {"name": name, "kind": node.kind}
    if isinstance(node, ArrayModel):
        entry |= {"shape": list(node.shape), "dtype": extension.type_name(node.data_type)}
        if long:
            facts = describe(location, node, listing=listing)
            names = ("zarr_format", "chunks", "shards", "nbytes", "stored")
            entry |= {key: facts.get(key) for key in names}
            entry |= {"ratio": ratio(facts), "codecs": summaries.codec_names(node)}
    return entry


_COLUMNS = ("type", "format", "shape", "chunks", "codecs", "in memory", "stored", "ratio", "name")
_NUMBERS = "stored ratio"


def _row(entry: dict[str, Any]) -> list[str]:
    name, kind = entry["name"], entry["kind"]
    if kind != "array":
        return [kind, *[""] * (len(_COLUMNS) - 2), name + ("/" if kind == "group" else "")]
    memory, stored = entry["nbytes"], entry["stored"]
    return [
        entry["dtype"],
        f"v{entry['zarr_format']}",
        shape_text(entry["shape"]),
        chunk_text(entry) if entry["chunks"] else "unknown",
        entry["codecs"],
        "" if memory is None else size_text(memory),
        "" if stored is None else size_text(stored["bytes"]),
        "" if entry["ratio"] is None else f"{entry['ratio']:.1f}",
        name,
    ]


@command("omnizarr inventory lake/", "omnizarr inventory lake/ s3://bucket/runs --json | jq .node")
@paths_argument
@click.option("--no-listing", is_flag=True, help="Do not list keys to add up stored bytes.")
@json_option
@storage_option
def inventory(paths: tuple[str, ...], no_listing: bool, storage_options: Options) -> int:
    """List all arrays in PATH, a folder with hierarchies or a hierarchy, in one table.

    "ratio" is the compression ratio. With --json, each array is one line, printed when it is known.
    What cannot be read is listed with its error, and the exit code is 3.
    """
    rows, failed = list[list[str]](), False
    for path in (each for given in paths for each in find_hierarchies(given, storage_options)):
        for found in _arrays_in(path, storage_options, not no_listing):
            failed = failed or "error" in found
            if wants_json():
                say_json({"path": path, **found}, indent=None)
            elif "error" in found:
                remark(f"{extension.redact_urls(path)}: {found['message']}", label=found["error"])
            else:
                place = path_below(path, found["name"]) if found["name"] else path
                rows.append([*_row(found)[:-1], extension.redact_urls(place)])
    if rows:
        show_table((*_COLUMNS[:-1], "path"), rows, right=_NUMBERS)
    return FAILED if failed else OK


def _arrays_in(path: str, options: Options, listing: bool) -> Iterator[dict[str, Any]]:
    """Yield the facts about each array of a hierarchy, or the error that there is instead."""
    try:
        start, top = find(path, "", options)
        nodes = iter([("", start, top)]) if isinstance(top, ArrayModel) else _members(start, True)
        for name, location, node in nodes:
            error = node if isinstance(node, Exception) else None
            if isinstance(node, ArrayModel):
                try:
                    yield _entry(name, location, node, True, listing)
                except (OmnizarrError, OSError) as e:  # other arrays can still be read
                    error = e
            if error is not None:
                yield {"name": name, **error_json(error)}
    except (OmnizarrError, OSError) as e:
        yield {"name": "", **error_json(e)}


@path_command("omnizarr tree ocean.zarr", "omnizarr tree --depth 2 --json lake/")
@click.option("--depth", type=click.IntRange(0), help="Number of levels to show; all by default.")
def tree(path: str, node: str, depth: int | None, storage_options: Options) -> Answer:
    """Show the arrays and groups in PATH as a tree."""
    location, found = find(path, node, storage_options)

    def show() -> None:
        if isinstance(found, ArrayModel):
            say(summaries.array_line(found, location))
        else:
            say(repr(summaries.tree(location, found, depth, sys.maxsize)))

    name = node_paths.name(location.path)
    return Answer({"tree": _branch(name, location, found, depth)} if wants_json() else {}, show)


def _branch(
    name: str, location: Location, node: Node | Exception, depth: int | None
) -> dict[str, Any]:
    """Return a node and all below it for JSON."""
    branch = _entry(name, location, node, long=False)
    if isinstance(node, GroupModel) and depth != 0:
        deeper, below = None if depth is None else depth - 1, location.with_listing()
        branch["members"] = [
            _branch(child_name, below.child(child_name), child, deeper)
            for child_name, child in sorted(below.children().items())
        ]
    return branch


# Values

_MOST_BYTES = 256 << 20  # to print
_PART = re.compile(r"(-?\d+)?(:(-?\d+)?(:(-?\d+)?)?)?")


def parse_selection(text: str, names: Sequence[str | None] = ()) -> tuple[Any, ...]:
    """Parse integers, slices and ``...``, separated by commas, or by name: ``time=0,lat=10:20``."""
    parts: list[Any] = []
    named: dict[str, Any] = {}
    for each in text.strip().strip("[]").split(","):
        name, equals, part = (s.strip() for s in each.rpartition("="))
        found = _PART.fullmatch(part)
        if equals and name not in names:
            known = known_names(name, [n for n in names if n])
            raise InvalidArgument(f"--select: there is no dimension {name!r}; {known}")
        if part == "..." and not equals:
            parts.append(...)
        elif not part or found is None:
            raise InvalidArgument(
                f"--select: {part!r} is not an index or a slice; expected such as '0,:10',"
                " '...,::2' or 'time=0,lat=10:20'"
            )
        else:
            bounds = (int(n) if n else None for n in part.split(":"))
            index = int(part) if found[2] is None else slice(*bounds)
            parts += [] if equals else [index]
            named |= {name: index} if equals else {}
    if named and parts:
        raise InvalidArgument(f"--select: name all dimensions or none, got {text!r}")
    return tuple(named.get(n or "", slice(None)) for n in names) if named else tuple(parts)


_select_option = click.option(
    "--select", metavar="SELECTION", default="...",
    help="Part of the array, such as 0,:10 or ...,::2 or time=0,lat=10:20.",
)  # fmt: skip


def _open_array(path: str, node: str, options: Options) -> Array:
    found = omnizarr.open(path, path=node, storage_options=options)
    if not isinstance(found, omnizarr.Array):
        names = ", ".join([n for n, _ in found.arrays()][:10])
        held = f"; its arrays are {names}" if names else ""
        raise WrongNode(f"{found.name} in {path} is a group; give an array with --node{held}")
    return found


@command(
    'omnizarr cat ocean.zarr --node temperature --select "0,:10,:10"',
    "omnizarr cat --json ocean.zarr --node time",
)
@path_argument
@node_option
@_select_option
@json_option
@storage_option
def cat(path: str, node: str, select: str, storage_options: Options) -> int:
    """Print all values of the array at PATH, or a selection, as NumPy does."""
    array = _open_array(path, node, storage_options)
    return _show_values(path, array, parse_selection(select, array.dimension_names or ()))


@command(
    "omnizarr explain ocean.zarr --node temperature --select time=0,lat=10:20",
    "omnizarr explain s3://bucket/scan.zarr --select 0 --sizes --price-per-1000-requests 0.0004",
)
@path_argument
@node_option
@_select_option
@click.option("--sizes", is_flag=True, help="Ask for stored sizes instead of estimating them.")
@click.option(
    "--price-per-1000-requests", type=click.FloatRange(0), default=0, metavar="PRICE",
    help="Price of requests, in any currency.",
)  # fmt: skip
@click.option(
    "--price-per-gb", type=click.FloatRange(0), default=0, metavar="PRICE",
    help="Price of 1 GB (1000000000 bytes) that is fetched.",
)  # fmt: skip
@json_option
@storage_option
def explain(path: str, node: str, select: str, storage_options: Options, **given: Any) -> int:
    """Show what reading a part of the array at PATH costs, without reading a chunk of it."""
    array = _open_array(path, node, storage_options)
    view = array.view[parse_selection(select, array.dimension_names or ())]
    found = view.explain(**given)
    return answer({"path": path, "node": array.name, **found.to_json()}, partial(say, found))


@command("omnizarr head ocean.zarr --node temperature", "omnizarr head -n 3 --json ocean.zarr/time")
@path_argument
@node_option
@click.option(
    "--number", "-n", type=click.IntRange(1), default=5, show_default=True,
    help="Number of values along each axis.",
)  # fmt: skip
@json_option
@storage_option
def head(path: str, node: str, number: int, storage_options: Options) -> int:
    """Print the first values of the array at PATH, along each axis, as NumPy does."""
    array = _open_array(path, node, storage_options)
    return _show_values(path, array, (slice(number),) * array.ndim)


def _show_values(path: str, array: Array, selection: tuple[Any, ...]) -> int:
    """Print the values of a selection, all of them."""
    import numpy as np  # noqa: PLC0415 - slow to import, and needed for values only

    size = np.broadcast_to(np.empty((), "u1"), array.shape)[selection].size * array.dtype.itemsize
    if size > _MOST_BYTES:
        raise InvalidArgument(
            f"{array.name} in {path}: {size_text(size)} are too much to print; give a part with"
            " --select, or use `omnizarr export`"
        )
    values = np.asanyarray(array[selection])

    def show() -> None:
        width = max(shutil.get_terminal_size().columns, 40)
        text = partial(np.array2string, values, threshold=sys.maxsize, max_line_width=width)
        try:
            say(text())
        except OverflowError:  # see `value_text`
            say(text(formatter={"datetime": value_text}))

    facts = {"path": path, "node": array.name, "dtype": str(array.dtype)}
    shown = _json_values(values) if wants_json() else None
    return answer({**facts, "shape": list(values.shape), "values": shown}, show)


def _json_values(values: Any) -> Any:
    """Return values as lists of JSON: complex numbers as pairs, times and raw bytes as text."""
    if values.dtype.kind == "c":
        return _nested(values, lambda value: [float(value.real), float(value.imag)])
    return _nested(values, value_text) if values.dtype.kind in "mMV" else values.tolist()


def _nested(values: Any, convert: Any) -> Any:
    return convert(values[()]) if values.ndim == 0 else [_nested(v, convert) for v in values]


# Pictures and the page


@command(
    "omnizarr preview cell.ome.zarr cell.png --at t=3",
    "omnizarr preview ocean.zarr temperature.png --node temperature --pixels 1024",
)
@path_argument
@click.argument("output", type=click.Path(dir_okay=False, path_type=str))
@node_option
@click.option(
    "--at", multiple=True, metavar="AXIS=NUMBER", callback=parse_pairs,
    help="Position along an axis that is not drawn, such as t=3; may be repeated.",
)  # fmt: skip
@click.option(
    "--pixels", type=click.IntRange(1), default=512, show_default=True,
    help="Pixels of the longer side.",
)  # fmt: skip
@yes_option
@json_option
@storage_option
def preview(
    path: str,
    output: str,
    node: str,
    at: dict[str, int],
    pixels: int,
    yes: bool,
    storage_options: Options,
) -> int:
    """Write a picture of PATH to OUTPUT, such as a.png: a plane with its channels, or a plot.

    A pyramid is drawn from the smallest level that has enough pixels, a large array from every nth
    element. A group is shown by its largest array.
    """
    if os.path.exists(output):
        confirm(f"{output} exists; replace it?", yes)
    found = omnizarr.open(path, path=node or None, storage_options=storage_options)
    made = omnizarr.preview(found, at=at, pixels=pixels)
    made.save(output)
    return answer({"output": output, "caption": made.caption}, partial(say, output))


@command(
    "omnizarr serve ocean.zarr --open",
    "omnizarr serve s3://bucket/cell.ome.zarr --host 0.0.0.0 --token random",
)
@path_argument
@click.option(
    "--host", default="127.0.0.1", show_default=True,
    help="Address to listen at; by default only this machine can connect.",
)  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0 takes any that is free.")
@click.option(
    "--token", envvar="OMNIZARR_TOKEN",
    help="Text that clients must send; 'random' makes one. Also the variable OMNIZARR_TOKEN.",
)  # fmt: skip
@click.option("--open", "open_page", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--origin", "origins", multiple=True, metavar="URL",
    help="Website whose pages may read the data; may be repeated. Default: all.",
)  # fmt: skip
@click.option(
    "--host-name", "host_names", multiple=True, metavar="NAME",
    help="Name by which clients call the server, such as a proxy's; may be repeated.",
)  # fmt: skip
@click.option("--follow-links", is_flag=True, help="Follow symbolic links that lead out of PATH.")
@click.option(
    "--memory", metavar="SIZE", default="256MiB", show_default=True,
    help="Memory for answers, such as 1GB; large chunks need more.",
)  # fmt: skip
@click.option("--seconds", type=click.FloatRange(min=0), help="Stop after this time.")
@json_option
@storage_option
def serve(
    path: str,
    token: str | None,
    open_page: bool,
    origins: tuple[str, ...],
    memory: str,
    **given: Any,
) -> None:
    """Serve PATH read-only over HTTP until Ctrl-C: the page, stored keys, and views as v2 and v3.

    The page at / shows the hierarchy and its values. /store/ has the keys as they are stored; /v2/
    and /v3/ translate them for programs that read only version 2 or 3.
    """
    from omnizarr import serve as start  # noqa: PLC0415 - its error says which packages to install
    from omnizarr.viewer.access import ServerLimits  # noqa: PLC0415

    secret = secrets.token_urlsafe(18) if token == "random" else token

    def started(url: str) -> None:
        page = url if secret is None else f"{url}?token={secret}"
        if wants_json():
            say_json({"url": url, "page": page, "token": secret})
        else:
            say(f"serving {path} at {page}")
            remark(f"programs open {url}store; press Ctrl-C to stop")
        if open_page:
            import webbrowser  # noqa: PLC0415 - rarely needed

            webbrowser.open(page)

    start(
        path,
        token=secret,
        origins=origins or ("*",),
        limits=ServerLimits(memory=extension.byte_size(memory, "--memory")),
        started=started,
        **given,
    )
    remark("stopped")
