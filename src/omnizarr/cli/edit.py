"""Commands that create nodes and change metadata: attrs, create and consolidate."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

import omnizarr
from omnizarr.cli.describe import describe, find, summary
from omnizarr.cli.options import (
    Chunks,
    Options,
    chunks_option,
    codec_options,
    codecs_option,
    dry_run_option,
    json_option,
    node_option,
    overwrite_option,
    parse_pairs,
    parse_value,
    path_argument,
    paths_argument,
    quiet_option,
    shards_option,
    storage_option,
    zarr_format_option,
)
from omnizarr.cli.terminal import counted, examples, may_overwrite, run_each, say, say_json
from omnizarr.errors import InvalidArgument, NodeExists, NodeNotFound, WrongNode, known_names
from omnizarr.extension import ArrayModel, LocalStore, existing_node, readable_nodes


@click.command(
    epilog=examples(
        "omnizarr attrs ocean.zarr --node temperature",
        "omnizarr attrs ocean.zarr --set title=Sea --set 'range=[0, 30]' --delete draft",
    )
)
@paths_argument
@node_option
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", callback=parse_pairs,
    help="Set an attribute to JSON, or to text that is no JSON; may be repeated.",
)  # fmt: skip
@click.option("--delete", multiple=True, metavar="KEY", help="Delete an attribute; repeatable.")
@dry_run_option
@json_option
@storage_option
def attrs(
    paths: tuple[str, ...],
    node: str,
    changes: dict[str, Any],
    delete: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    storage_options: Options,
) -> None:
    """Show or change the attributes of the array or group at PATH."""
    both = changes.keys() & set(delete)
    if both:
        raise click.UsageError(f"{sorted(both)[0]!r} is both set and deleted")
    edits = bool(changes or delete)

    def work(path: str) -> dict[str, Any]:
        if not edits:
            return {"attributes": dict(find(path, node, storage_options)[1].attributes)}
        mode: Any = "r" if dry_run else "r+"
        found = omnizarr.open(path, mode, path=node, storage_options=storage_options)
        changed: list[dict[str, Any]] = []

        def change(attributes: dict[str, Any]) -> None:
            changed[:] = _changes(attributes, changes, delete)
            for name in delete:
                del attributes[name]
            attributes.update(changes)

        if dry_run:
            after = found.attrs.asdict()
            change(after)
        else:
            found.attrs.edit(change)
            after = found.attrs.asdict()
        return {"attributes": after, "changes": changed, "dry_run": dry_run}

    def show(result: dict[str, Any]) -> None:
        if not edits:
            say(json.dumps(result["attributes"], indent=2, ensure_ascii=False))
        for each in result.get("changes", []):
            say(_change_text(each))
        if dry_run:
            say("nothing was written (--dry-run)")

    sys.exit(run_each(paths, work, show, as_json=as_json, storage_options=storage_options))


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
    def text(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    if change["action"] == "delete":
        return f"- {change['name']}: {text(change['old'])}"
    if change["action"] == "add":
        return f"+ {change['name']}: {text(change['new'])}"
    return f"~ {change['name']}: {text(change['old'])} -> {text(change['new'])}"


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


@click.command(
    epilog=examples(
        "omnizarr create ocean.zarr --attribute title=Sea",
        "omnizarr create ocean.zarr --node temperature --shape 365,720,1440 --dtype f4"
        " --chunks 1,720,1440 --codecs zstd:5",
    )
)
@path_argument
@node_option
@click.option("--shape", metavar="SHAPE", help="Shape of the array, such as 365,720,1440.")
@click.option("--dtype", help="Data type, such as f4, int16, datetime64[s] or string.")
@chunks_option
@shards_option
@codecs_option
@click.option("--fill-value", metavar="VALUE", help="Value of what was never written.")
@click.option("--dimensions", metavar="NAMES", help="Names of the axes, such as time,lat,lon.")
@click.option(
    "--attribute", "attributes", multiple=True, metavar="KEY=VALUE", callback=parse_pairs,
    help="Attribute, as JSON or text; may be repeated.",
)  # fmt: skip
@zarr_format_option
@overwrite_option
@dry_run_option
@json_option
@storage_option
def create(
    path: str,
    node: str,
    shape: str | None,
    dtype: str | None,
    chunks: Chunks,
    shards: Chunks,
    codecs: list[Any] | None,
    fill_value: str | None,
    dimensions: str | None,
    attributes: dict[str, Any],
    zarr_format: str | None,
    overwrite: bool,
    dry_run: bool,
    as_json: bool,
    storage_options: Options,
) -> None:
    """Create an empty array at PATH, or without --shape a group.

    Where PATH is inside a hierarchy, missing groups above it are created too.
    """
    if not node:
        path, node = _split_at_hierarchy(path)
    given = {
        "dtype": dtype,
        "chunks": chunks,
        "shards": shards,
        "fill_value": None if fill_value is None else parse_value(fill_value),
        **codec_options(codecs),
    }
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
    # Made in memory first, which finds what is wrong before anything is replaced.
    draft = _make(None, options, attributes=attributes, zarr_format=zarr_format)
    facts = describe(draft._location, draft._model, listing=False)
    place = f"{path}/{node}".rstrip("/") if node else path
    if dry_run:
        _check_absent(path, node, overwrite, storage_options)
    else:
        if not node:
            overwrite = may_overwrite(path, overwrite, storage_options)
        made = _make(
            path, options, attributes=attributes, zarr_format=zarr_format, path=node,
            overwrite=overwrite, storage_options=storage_options,
        )  # fmt: skip
        facts = describe(made._location, made._model, listing=False)
    facts |= {"path": path, "dry_run": dry_run}
    if as_json:
        say_json(facts)
        return
    say(f"{'would create' if dry_run else 'created'} {facts['kind']} {place}")
    for name, value in summary(facts).items():
        if name != "path":
            say(f"  {name}: {value}")


def _check_absent(path: str, node: str, overwrite: bool, options: Options) -> None:
    """Raise if there is a node that would not be replaced."""
    try:
        location, found = find(path, node, options)
    except NodeNotFound:
        return
    if not overwrite:
        raise NodeExists(
            f"there is already a zarr {location.format.name} {found.kind} at {location}; give"
            " overwrite=True to replace it"
        )


def _make(store: Any, options: dict[str, Any], **more: Any) -> Any:
    given = {name: value for name, value in more.items() if value is not None}
    make: Any = omnizarr.create_array if "shape" in options else omnizarr.create_group
    return make(store, **options, **given)


def _shape(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.strip("()[] ").split(",") if part.strip())
    except ValueError:
        raise click.BadParameter(
            f"expected lengths separated by commas, got {text!r}", param_hint="--shape"
        ) from None


def _resolve_names(options: dict[str, Any], names: list[str] | None) -> None:
    """Replace -1 by whole axes, and lengths of named dimensions by a shape."""
    shape = options["shape"]
    for option in ("chunks", "shards"):
        given = options.get(option)
        if isinstance(given, dict):
            unknown = [name for name in given if name not in (names or [])]
            if unknown:
                raise click.UsageError(
                    f"--{option}: unknown dimension {unknown[0]!r};"
                    f" {known_names(unknown[0], names or [])}"
                )
            given = tuple(given.get(name, -1) for name in names or [])
        if isinstance(given, tuple):
            lengths = [*given, *[-1] * (len(shape) - len(given))]
            pairs = zip(lengths, shape, strict=False)
            options[option] = tuple(max(1, n) if c == -1 else c for c, n in pairs)


@click.command(
    epilog=examples("omnizarr consolidate ocean.zarr", "omnizarr consolidate --dry-run lake/")
)
@paths_argument
@node_option
@dry_run_option
@quiet_option
@json_option
@storage_option
def consolidate(
    paths: tuple[str, ...], node: str, dry_run: bool, as_json: bool, storage_options: Options
) -> None:
    """Store the metadata of all nodes below PATH in one place.

    Readers then need one request instead of one for each node.
    """

    def work(path: str) -> dict[str, Any]:
        location, found = find(path, node, storage_options)
        if isinstance(found, ArrayModel) and path not in paths:  # one of a folder
            return {"nodes": 0, "dry_run": dry_run}
        if isinstance(found, ArrayModel):
            raise WrongNode(f"{location} is an array; only metadata of groups are consolidated")
        count = len(list(readable_nodes(location, found)))
        if not dry_run:
            omnizarr.consolidate_metadata(path, node, storage_options=storage_options)
        return {"nodes": count, "dry_run": dry_run}

    def show(result: dict[str, Any]) -> None:
        if not result["nodes"]:
            say("an array, which has no metadata to consolidate")
            return
        would = "would consolidate" if dry_run else "consolidated"
        say(f"{would} the metadata of {counted(result['nodes'], 'node')}")

    sys.exit(run_each(paths, work, show, as_json=as_json, storage_options=storage_options))
