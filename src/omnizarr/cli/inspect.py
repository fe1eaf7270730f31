"""Commands that show metadata and values."""

from __future__ import annotations

import click

import omnizarr
from omnizarr.cli.options import Options, node_option, path_argument, storage_option
from omnizarr.cli.terminal import say, say_json


@click.command()
@path_argument
@node_option
@storage_option
def info(path: str, node: str, storage_options: Options) -> None:
    """Show the metadata, codecs, sizes and attributes of PATH."""
    found = omnizarr.open(path, path=node, storage_options=storage_options)
    say(str(found.info_complete()))
    if found.attrs:
        say_json(found.attrs.asdict())


@click.command()
@path_argument
@click.option(
    "--depth",
    type=click.IntRange(0),
    default=None,
    help="Number of levels to show; all by default.",
)
@storage_option
def tree(path: str, depth: int | None, storage_options: Options) -> None:
    """Show the arrays and groups in PATH as a tree."""
    found = omnizarr.open(path, storage_options=storage_options)
    if isinstance(found, omnizarr.Group):
        say(str(found.tree(level=depth)))
    else:
        say(repr(found))
