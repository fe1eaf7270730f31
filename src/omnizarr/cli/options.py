"""Arguments and options shared by several commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Options: TypeAlias = dict[str, Any] | None

path_argument = click.argument("path", type=click.Path(path_type=str))
node_option = click.option("--node", default="", help="Path of a node inside the hierarchy.")


def _parsed(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Options:
    """Return the given options as a dictionary, or None if there are none."""
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"expected KEY=VALUE, got {text!r}", context, parameter)
        options[name] = _value(value)
    return options or None


def _value(text: str) -> Any:
    """Parse an option's value as JSON (``true``, 30, an object), or return the text itself.

    A number stays text if JSON would write it differently: ``007`` and ``1e5`` may be keys.
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
    except ValueError:
        return text
    return text if isinstance(value, (int, float)) and json.dumps(value) != text else value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _repeatable(name: str, text: str) -> Callable[[F], F]:
    return click.option(
        name, f"{name.removeprefix('--').replace('-', '_')}s",
        multiple=True, metavar="KEY=VALUE", callback=_parsed, help=text,
    )  # fmt: skip


storage_option = _repeatable(
    "--storage-option",
    "Option for the store of a URL, such as anonymous=true; may be repeated.",
)
# For commands with a source and a destination; --storage-option applies to both.
destination_option = _repeatable(
    "--destination-option", "Like --storage-option, for DESTINATION only."
)
checksum_option = click.option(
    "--checksum",
    is_flag=True,
    help="Keep checksums in version 2, although few other readers support them.",
)
