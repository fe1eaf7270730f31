"""`omnizarr rechunk`."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import omnizarr
from omnizarr.cli.jobs import (
    Done,
    Pair,
    Where,
    find_pairs,
    may_replace,
    planned,
    run_job,
    run_pairs,
    writing_job_options,
)
from omnizarr.cli.options import (
    Options,
    chunks_option,
    codecs_option,
    destination_option,
    json_option,
    memory_option,
    no_shards_option,
    node_option,
    overwrite_option,
    parse_chunks,
    parse_codecs,
    parse_value,
    shards_option,
    shards_or_none,
    storage_option,
    zarr_format_option,
)
from omnizarr.cli.terminal import confirm, counted, examples, say, say_json
from omnizarr.extension import size_text

if TYPE_CHECKING:  # slow to import, and not needed for the help
    from omnizarr.bulk.job import Job
    from omnizarr.bulk.rechunk.tasks import Report


def _parse_rules(context: click.Context, parameter: click.Parameter, given: str | None) -> Any:
    """Parse rules by pattern from JSON, or from a file with JSON."""
    if given is None:
        return None
    try:
        text = Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given
        rules = json.loads(text)
        if not isinstance(rules, dict) or not all(isinstance(r, dict) for r in rules.values()):
            raise ValueError('expected an object such as {"temp": {"chunks": {"time": -1}}}')
        return {pattern: _parse_rule(rule) for pattern, rule in rules.items()}
    except (OSError, ValueError) as e:
        raise click.BadParameter(str(e), context, parameter) from None


def _parse_rule(rule: dict[str, Any]) -> dict[str, Any]:
    """Return a rule in which texts have the meaning that they have as options."""
    parsers = {"chunks": parse_chunks, "shards": parse_chunks, "codecs": parse_codecs}
    return {
        name: parsers[name](value) if name in parsers and isinstance(value, str) else value
        for name, value in rule.items()
    }


@click.command(
    epilog=examples(
        "omnizarr rechunk by-time.zarr by-place.zarr --chunks time=-1,lat=100,lon=100",
        "omnizarr rechunk raw.zarr small.zarr --codecs zstd:5 --dtype f4 --dry-run",
        "omnizarr rechunk old.zarr sharded.zarr --zarr-format 3 --shards 64MB",
        "omnizarr rechunk lake/ small-lake/ --codecs zstd:9    # every hierarchy in the folder",
        "omnizarr rechunk by-time.zarr by-place.zarr --append time",
        """omnizarr rechunk a.zarr --in-place --rules '{"temp": {"chunks": "1,100,100"}}'""",
    )
)
@click.argument("source")
@click.argument("destination", required=False)
@chunks_option
@shards_option
@no_shards_option
@codecs_option
@click.option("--dtype", metavar="TYPE", help="Data type, such as f4 or int16.")
@click.option(
    "--casting",
    type=click.Choice(["no", "equiv", "safe", "same_kind", "unsafe"]),
    default="same_kind",
    show_default=True,
    help="NumPy's rule for --dtype; only unsafe changes values by more than rounding.",
)
@click.option("--fill-value", metavar="VALUE", help="Fill value; elements keep their values.")
@click.option(
    "--array", "patterns", multiple=True, metavar="PATTERN",
    help="Apply the options to these arrays only; may be repeated.",
)  # fmt: skip
@click.option(
    "--rules", metavar="JSON", callback=_parse_rules,
    help="Options by pattern of arrays, as JSON or in a file (@rules.json).",
)  # fmt: skip
@node_option
@zarr_format_option
@memory_option
@click.option("--passes", type=click.IntRange(1, 2), help="Number of passes, if not to be chosen.")
@click.option("--temp", metavar="PATH", help="Where to store intermediate chunks.")
@click.option("--in-place", is_flag=True, help="Replace the arrays of SOURCE.")
@click.option("--append", metavar="DIMENSION", help="Append what SOURCE has more along this.")
@click.option("--merge", is_flag=True, help="Add the arrays to the hierarchy at DESTINATION.")
@overwrite_option
@writing_job_options
@json_option
@storage_option
@destination_option
def rechunk(
    source: str,
    destination: str | None,
    shards: Any,
    no_shards: bool,
    fill_value: str | None,
    patterns: tuple[str, ...],
    rules: dict[str, Any] | None,
    in_place: bool,
    append: str | None,
    merge: bool,
    overwrite: bool,
    where: Where,
    as_json: bool,
    storage_options: Options,
    destination_options: Options,
    **given: Any,
) -> None:
    """Write SOURCE with other chunks, shards, compression or data types to DESTINATION.

    SOURCE is an array or a group; groups, attributes and the bytes of arrays that do not change are
    carried over. Dimensions that are not named keep their chunk length. --dry-run shows the plan:
    one pass or two, what is read and written, and the memory.

    SOURCE may be a folder: each hierarchy in it is written to the same path below DESTINATION, also
    after others have failed, and --resume repeats none that is complete.
    """
    if (destination is None) != in_place:
        both = ", not both" if in_place else ""
        raise click.UsageError(f"give a DESTINATION or --in-place{both}")
    if in_place and given["zarr_format"] is not None:
        raise click.UsageError("--zarr-format needs a DESTINATION; leave out --in-place")
    layout = {name: given.pop(name) for name in ("chunks", "codecs", "dtype")}
    layout["shards"] = shards_or_none(shards, no_shards)
    layout["fill_value"] = None if fill_value is None else parse_value(fill_value)
    if patterns:
        chosen = {name: value for name, value in layout.items() if value is not None}
        rules = {**(rules or {}), **dict.fromkeys(patterns, chosen)}
        layout = dict.fromkeys(layout)
    pairs = find_pairs(source, destination, storage_options, destination_options)
    if in_place and where.begins:
        many = "" if pairs is None else f" the {counted(len(pairs), 'hierarchy')} in"
        confirm(f"The arrays of{many} {source} will be replaced when the new ones are complete.",
                overwrite)  # fmt: skip

    def describe(pair: Pair, replaces: bool) -> Job[Any]:
        return omnizarr.jobs.Rechunk(
            pair.source,
            pair.destination,
            rules=rules,
            in_place=in_place,
            append_dim=append,
            merge=merge,
            overwrite=replaces and not in_place,
            storage_options=storage_options,
            destination_options=destination_options,
            **layout,
            **given,
        )

    def work(job: Job[Any], pair: Pair) -> Done:
        if where.dry_run:
            return planned(job, where)
        report: Any = run_job(job, where)
        about = {"source": pair.source, "destination": pair.target}
        shows = partial(show, report, pair.target, where, brief=pairs is not None)
        return Done({**about, **report.to_json()}, shows)

    options = destination_options or storage_options
    asks = append is None and not merge
    if pairs is not None:
        sys.exit(
            run_pairs(
                pairs, describe, work, where, given=(source, destination), verb="rechunked",
                overwrite=overwrite, asks=asks, as_json=as_json, options=options,
            )
        )  # fmt: skip
    if destination is not None and asks:
        overwrite = may_replace(destination, overwrite, where, options)
    pair = Pair(source, destination)
    job = describe(pair, overwrite)
    if where.dry_run:
        run_job(job, where, as_json)
        return
    done = work(job, pair)
    if as_json:
        say_json(done.data)
    else:
        done.show()


def show(report: Report, target: str, where: Where, what: str = "", *, brief: bool = False) -> None:
    """Print the result: in one line if it is brief, else with the layout of each array."""
    parts = [
        counted(report.groups, "group"),
        counted(report.arrays, "array"),
        f"{len(report.rechunked)} with a new layout",
        f"{size_text(report.bytes_read)} read",
        f"{size_text(report.bytes_written)} written",
    ]
    if report.chunks_copied:
        parts.append(f"{counted(report.chunks_copied, 'chunk')} copied")
    say(f"{where.title}wrote {what}{target}: {', '.join(parts)}")
    for path, layout in () if brief else report.rechunked.items():
        say(f"  {path}: {layout}")
    for path, why in () if brief else (*report.kept.items(), *report.notes.items()):
        say(f"  {path}: {why}")
