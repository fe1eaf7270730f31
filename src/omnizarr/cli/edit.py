"""Commands that create nodes and change metadata: attrs, create and consolidate."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click

import omnizarr
from omnizarr.cli.answers import Answer, answer, command, may_overwrite, path_command, say_lines
from omnizarr.cli.describe import describe, find, summary
from omnizarr.cli.options import (
    Options,
    codec_options,
    json_option,
    node_option,
    parse_pairs,
    path_argument,
    shared_option,
    storage_option,
)
from omnizarr.cli.terminal import counted, say
from omnizarr.errors import InvalidArgument, WrongNode, known_names
from omnizarr.extension import ArrayModel, LocalStore, existing_node, location_of, lookup, model_of


@path_command(
    "omnizarr attrs ocean.zarr --node temperature",
    "omnizarr attrs ocean.zarr --set title=Sea --set 'range=[0, 30]' --delete draft",
)
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", callback=parse_pairs,
    help="Set an attribute; VALUE is JSON, or else text; may be repeated.",
)  # fmt: skip
@click.option("--delete", multiple=True, metavar="KEY", help="Delete an attribute; repeatable.")
def attrs(
    path: str,
    node: str,
    changes: dict[str, Any],
    delete: tuple[str, ...],
    storage_options: Options,
) -> Answer:
    """Show or change the attributes of the array or group at PATH."""
    both = changes.keys() & set(delete)
    if both:
        raise click.UsageError(f"{sorted(both)[0]!r} is both set and deleted")
    if not (changes or delete):
        found = dict(find(path, node, storage_options)[1].attributes)
        shown = json.dumps(found, indent=2, ensure_ascii=False)
        return Answer({"attributes": found}, partial(say, shown))
    opened = omnizarr.open(path, "r+", path=node, storage_options=storage_options)
    changed: list[dict[str, Any]] = []

    def change(attributes: dict[str, Any]) -> None:
        changed[:] = _changes(attributes, changes, delete)
        for name in delete:
            del attributes[name]
        attributes.update(changes)

    opened.attrs.edit(change)
    data = {"attributes": opened.attrs.asdict(), "changes": changed}
    return Answer(data, say_lines(*map(_change_text, changed)))


def _changes(
    attributes: dict[str, Any], changes: dict[str, Any], delete: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return the changes with old and new values; raise for a name that cannot be deleted."""
    found: list[dict[str, Any]] = []
    for name in delete:
        if name not in attributes:
            raise InvalidArgument(
                f"there is no attribute {name!r} to delete; {known_names(name, attributes)}"
            )
        found.append({"name": name, "action": "delete", "old": attributes[name]})
    for name, value in changes.items():
        if name not in attributes:
            found.append({"name": name, "action": "add", "new": value})
        elif attributes[name] != value:
            old = attributes[name]
            found.append({"name": name, "action": "replace", "old": old, "new": value})
    return found


def _change_text(change: dict[str, Any]) -> str:
    sign = {"delete": "-", "add": "+", "replace": "~"}[change["action"]]
    values = [change[name] for name in ("old", "new") if name in change]
    text = " -> ".join(json.dumps(value, ensure_ascii=False) for value in values)
    return f"{sign} {change['name']}: {text}"


def _split_at_hierarchy(path: str) -> tuple[str, str]:
    """Return the hierarchy above a path that lacks groups in between, and the path in it.

    Else the path itself and no path in it: also for URLs, and where the group above exists.
    """
    if "://" in path or "::" in path:
        return path, ""
    whole = Path(path)
    for number, folder in enumerate(whole.parents):
        found = existing_node(LocalStore(folder, read_only=True), "")
        if found is not None:
            inside = whole.relative_to(folder).as_posix()
            return (str(folder), inside) if number else (path, "")
    return path, ""


@command(
    "omnizarr create ocean.zarr --attribute title=Sea",
    "omnizarr create ocean.zarr --node temperature --shape 365,720,1440 --dtype f4"
    " --chunks 1,720,1440 --codecs zstd:5",
)
@path_argument
@node_option
@click.option("--shape", metavar="SHAPE", help="Shape of the array, such as 365,720,1440.")
@click.option("--dtype", help="Data type, such as f4, int16, datetime64[s] or string.")
@shared_option("chunks")
@shared_option("shards")
@shared_option("codecs")
@shared_option("fill_value", help="Value of elements that were never written.")
@click.option("--dimensions", metavar="NAMES", help="Names of the axes, such as time,lat,lon.")
@click.option(
    "--attribute", "attributes", multiple=True, metavar="KEY=VALUE", callback=parse_pairs,
    help="Attribute, as JSON or text; may be repeated.",
)  # fmt: skip
@shared_option("zarr_format")
@shared_option("overwrite")
@json_option
@storage_option
def create(
    path: str,
    node: str,
    shape: str | None,
    codecs: list[Any] | None,
    dimensions: str | None,
    attributes: dict[str, Any],
    zarr_format: str | None,
    overwrite: bool,
    storage_options: Options,
    **given: Any,
) -> int:
    """Create an empty array at PATH, or a group if there is no --shape.

    Where PATH is inside a hierarchy, missing groups above it are created too.
    """
    if not node:
        path, node = _split_at_hierarchy(path)
    given |= codec_options(codecs)
    options = {name: value for name, value in given.items() if value is not None}
    names = None if dimensions is None else [name.strip() for name in dimensions.split(",")]
    if shape is None:
        if options or names:
            wrong = "dimensions" if names else next(iter(options)).replace("_", "-")
            raise click.UsageError(f"--{wrong} is for arrays, which need --shape")
    else:
        options["shape"] = _shape(shape)
        options["dimension_names"] = names
        _resolve_names(options, names)
        options.setdefault("dtype", "f8")
    options["attributes"] = attributes
    if zarr_format is not None:
        options["zarr_format"] = zarr_format
    make: Any = omnizarr.create_group if shape is None else omnizarr.create_array
    make(None, **options)  # in memory first: that finds errors before anything is replaced
    if not node:
        overwrite = may_overwrite(path, overwrite, storage_options)
    made = make(path, path=node, overwrite=overwrite, storage_options=storage_options, **options)
    facts = describe(location_of(made), model_of(made), listing=False)
    place = f"{path}/{node}".rstrip("/") if node else path
    shown = (f"  {name}: {value}" for name, value in summary(facts).items() if name != "path")
    lines = say_lines(f"created {facts['kind']} {place}", *shown)
    return answer({**facts, "path": path}, lines)


def _shape(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.strip("()[] ").split(",") if part.strip())
    except ValueError:
        raise click.BadParameter(
            f"expected lengths separated by commas, got {text!r}", param_hint="--shape"
        ) from None


def _resolve_names(options: dict[str, Any], names: list[str] | None) -> None:
    """Replace -1 by whole axes, and lengths of named dimensions by a shape."""
    for option in ("chunks", "shards"):
        given = options.get(option)
        if isinstance(given, dict):
            for name in given:
                if name not in (names or []):
                    hint = known_names(name, names or [])
                    raise click.UsageError(f"--{option}: unknown dimension {name!r}; {hint}")
            given = tuple(given.get(name, -1) for name in names or [])
        if isinstance(given, tuple):
            lengths = [*given, *[-1] * (len(options["shape"]) - len(given))]
            pairs = zip(lengths, options["shape"], strict=False)
            options[option] = tuple(max(1, n) if c == -1 else c for c, n in pairs)


@path_command("omnizarr consolidate ocean.zarr", "omnizarr consolidate --json lake/", quiet=True)
def consolidate(path: str, node: str, storage_options: Options) -> Answer:
    """Store the metadata of all nodes below PATH in one place.

    Readers then need one request instead of one for each node.
    """
    location, found = find(path, node, storage_options)
    if isinstance(found, ArrayModel):
        if path in click.get_current_context().params["paths"]:
            raise WrongNode(f"{location} is an array; only metadata of groups are consolidated")
        text = "an array, which has no metadata to consolidate"  # one of a folder
        return Answer({"nodes": 0}, partial(say, text))
    count = len(list(lookup.readable_nodes(location, found)))
    omnizarr.consolidate_metadata(path, node, storage_options=storage_options)
    text = f"consolidated the metadata of {counted(count, 'node')}"
    return Answer({"nodes": count}, partial(say, text))
