"""`omnizarr validate`, `verify` and `repair`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

import omnizarr
from omnizarr.cli.options import Options, node_option, path_argument, storage_option
from omnizarr.cli.terminal import progress_bar, say, show_findings, show_problems
from omnizarr.stores.resolve import is_archive


@click.command()
@path_argument
@storage_option
def validate(path: str, storage_options: Options) -> None:
    """Check the metadata in PATH and list all problems.

    PATH is a hierarchy, or a file with one JSON document. The exit code is 1 if there are errors,
    and 0 if there are only warnings.
    """
    document = Path(path).is_file() and not is_archive(path)
    problems = omnizarr.validate(
        Path(path).read_bytes() if document else path, storage_options=storage_options
    )
    sys.exit(1 if show_problems(problems) else 0)


@click.command()
@path_argument
@click.option("--yes", is_flag=True, help="Repair; without it, only list.")
@click.option(
    "--older-than",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    help="Minimum age of files in seconds; newer files may be in use on another machine.",
)
@storage_option
def repair(path: str, yes: bool, older_than: float, storage_options: Options) -> None:
    """List what killed writers left behind in PATH.

    These are temporary files, locks, unfinished nodes and outdated consolidated metadata. With
    --yes, remove them, finish interrupted replacements, and rebuild the consolidated metadata. Data
    is never touched, nor is anything that a running process may still use.
    """
    found = omnizarr.repair(
        path, dry_run=not yes, older_than=older_than, storage_options=storage_options
    )
    for leftover in found:
        say(str(leftover))
    if not found:
        say("nothing to repair")
    elif not yes and any(leftover.state in ("unused", "out of date") for leftover in found):
        say("give --yes to remove what is unused and rebuild what is out of date")


@click.command()
@path_argument
@node_option
@click.option(
    "--depth",
    type=click.Choice(["present", "checksums", "decode"]),
    default="decode",
    help="Check sizes and shard indexes, checksums too, or decode everything (default).",
)
@click.option(
    "--missing",
    type=click.Choice(["count", "warn", "error"]),
    default="count",
    help="Count missing chunks (default), or report each with its key.",
)
@storage_option
def verify(path: str, node: str, depth: Any, missing: Any, storage_options: Options) -> None:
    """Check all chunks in PATH and list what is damaged.

    The exit code is 1 if anything is damaged. Keys that belong to no node are only warnings.
    """
    with progress_bar() as step:
        report = omnizarr.verify(
            path,
            path=node,
            depth=depth,
            missing=missing,
            progress=step,
            storage_options=storage_options,
        )
    show_findings(report.findings)
    say(str(report))
    sys.exit(0 if report.ok else 1)
