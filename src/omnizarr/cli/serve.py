"""Commands that let people see values: serve and preview."""

from __future__ import annotations

import os
import secrets
from typing import Any

import click

import omnizarr
from omnizarr.cli.options import (
    Options,
    json_option,
    node_option,
    path_argument,
    storage_option,
    yes_option,
)
from omnizarr.cli.terminal import confirm, examples, remark, say, say_json
from omnizarr.extension import byte_size

RANDOM = "random"


@click.command(
    epilog=examples(
        "omnizarr serve ocean.zarr --open",
        "omnizarr serve s3://bucket/cell.ome.zarr --host 0.0.0.0 --token random",
    )
)
@path_argument
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen at; by default only this machine can connect.",
)
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0 takes any that is free.")
@click.option(
    "--token",
    envvar="OMNIZARR_TOKEN",
    help="Text that clients have to give; 'random' makes one. Also the variable OMNIZARR_TOKEN.",
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in a browser.")
@click.option("--no-listing", is_flag=True, help="Do not list keys for /store/?list.")
@click.option(
    "--origin",
    "origins",
    multiple=True,
    metavar="URL",
    help="Web site whose pages may read what is served; several may be given. Default: all.",
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME",
    help="Name by which clients call the server, such as that of a proxy; may be repeated.",
)
@click.option("--follow-links", is_flag=True, help="Follow symbolic links that lead out of PATH.")
@click.option(
    "--memory",
    metavar="SIZE",
    default="256MiB",
    show_default=True,
    help="Memory for answers, such as 1GB; large chunks need more.",
)
@click.option("--seconds", type=click.FloatRange(min=0), help="Stop after so many seconds.")
@json_option
@storage_option
def serve(
    path: str,
    host: str,
    port: int | None,
    token: str | None,
    open_page: bool,
    no_listing: bool,
    origins: tuple[str, ...],
    host_names: tuple[str, ...],
    follow_links: bool,
    memory: str,
    seconds: float | None,
    as_json: bool,
    storage_options: Options,
) -> None:
    """Serve PATH read-only over HTTP until Ctrl-C: the page, stored keys, and views as v2 and v3.

    The page at / shows the hierarchy and its values. /store/ has the keys as they are stored, /v2/
    and /v3/ show them in these versions to programs that know no other.
    """
    secret = secrets.token_urlsafe(18) if token == RANDOM else token

    def started(url: str) -> None:
        page = url if secret is None else f"{url}?token={secret}"
        if as_json:
            say_json({"url": url, "page": page, "token": secret})
        else:
            say(f"serving {path} at {page}")
            remark(f"programs open {url}store; Ctrl-C ends it")
        if open_page:
            import webbrowser  # noqa: PLC0415 - rarely needed

            webbrowser.open(page)

    omnizarr.serve(
        path,
        host=host,
        port=port,
        token=secret,
        listing=not no_listing,
        origins=origins or ("*",),
        host_names=host_names,
        follow_links=follow_links,
        limits=_limits(memory),
        seconds=seconds,
        storage_options=storage_options,
        started=started,
    )


def _limits(memory: str) -> Any:
    from omnizarr.viewer.app import Limits  # noqa: PLC0415 - optional packages

    return Limits(memory=byte_size(memory, "--memory"))


def _parse_at(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    """Return the positions that ``--at AXIS=NUMBER`` names."""
    found = {}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            found[name] = int(number)
        except ValueError:
            name = ""
        if not name:
            raise click.BadParameter(f"{text!r} is not AXIS=NUMBER, such as t=3", ctx, param)
    return found


at_option = click.option(
    "--at",
    multiple=True,
    metavar="AXIS=NUMBER",
    callback=_parse_at,
    help="Position on an axis that the picture does not have, such as t=3; may be repeated.",
)


@click.command(
    epilog=examples(
        "omnizarr preview cell.ome.zarr cell.png --at t=3",
        "omnizarr preview ocean.zarr temperature.png --node temperature --pixels 1024",
    )
)
@path_argument
@click.argument("output", type=click.Path(dir_okay=False, path_type=str))
@node_option
@at_option
@click.option(
    "--pixels", type=click.IntRange(1), default=512, show_default=True, help="Of the longer side."
)
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
    as_json: bool,
    storage_options: Options,
) -> None:
    """Write a picture of PATH to OUTPUT, such as a.png: a plane with its channels, or a plot.

    It is made from the smallest sufficient level of a pyramid, or from every nth element. Of a
    group, the largest array is shown.
    """
    if os.path.exists(output):
        confirm(f"{output} exists; replace it?", yes)
    found = omnizarr.open(path, path=node or None, storage_options=storage_options)
    made = omnizarr.preview(found, at=at, pixels=pixels)
    made.save(output)
    if as_json:
        say_json({"output": output, **made.to_json()})
    else:
        say(output)
