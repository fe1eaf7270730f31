"""Arguments and options that several commands have."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Options: TypeAlias = dict[str, Any] | None

path_argument = click.argument("path", type=click.Path(path_type=str))
node_option = click.option("--node", default="", help="The path of a node inside the hierarchy.")


def _parsed(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Options:
    """Return options as a dictionary; None where none is given."""
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"expected KEY=VALUE, got {text!r}", context, parameter)
        options[name] = _value(value)
    return options or None


def _value(text: str) -> Any:
    """Return the JSON value that a text is: ``true``, 30, an object; else the text itself.

    A number stays text where it would not be written so again: ``007`` and ``1e5`` may be keys.
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
    except ValueError:
        return text
    return text if isinstance(value, (int, float)) and json.dumps(value) != text else value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _several(name: str, words: str) -> Callable[[F], F]:
    return click.option(
        name, f"{name.removeprefix('--').replace('-', '_')}s",
        multiple=True, metavar="KEY=VALUE", callback=_parsed, help=words,
    )  # fmt: skip


storage_option = _several(
    "--storage-option",
    "An option of the store that a URL names, such as anonymous=true; as often as needed.",
)
# Of commands with two places: what --storage-option gives is for both.
destination_option = _several(
    "--destination-option", "As --storage-option, for DESTINATION, where it takes other ones."
)
checksum_option = click.option(
    "--checksum",
    is_flag=True,
    help="Keep checksums in version 2 too, where few other readers know them.",
)
