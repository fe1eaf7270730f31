"""Options shared by several commands, and output on the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from omnizarr.errors import Problem
from omnizarr.hierarchy.info import counted
from omnizarr.ops.verify import Finding

F = TypeVar("F", bound=Callable[..., Any])
Options: TypeAlias = dict[str, Any] | None

path_argument = click.argument("path", type=click.Path(path_type=str))
node_option = click.option("--node", default="", help="Path of a node inside the hierarchy.")


def _parse(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Options:
    """Return the given options as a dictionary, or None if there are none."""
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"expected KEY=VALUE, got {text!r}", context, parameter)
        options[name] = _parse_value(value)
    return options or None


def _parse_value(text: str) -> Any:
    """Parse an option's value as JSON (``true``, 30, an object), or return the text itself.

    A number stays text if JSON would write it differently: ``007`` and ``1e5`` may be keys.
    """
    try:
        value = json.loads(text, parse_constant=_reject_constant)
    except ValueError:
        return text
    return text if isinstance(value, (int, float)) and json.dumps(value) != text else value


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _repeatable(name: str, text: str) -> Callable[[F], F]:
    return click.option(
        name, f"{name.removeprefix('--').replace('-', '_')}s",
        multiple=True, metavar="KEY=VALUE", callback=_parse, help=text,
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


console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def show_problems(problems: Sequence[Problem]) -> int:
    """Print every problem and return the number of errors."""
    show_findings(problems)
    bad = sum(p.level == "error" for p in problems)
    console.print(f"{counted(bad, 'error')}, {counted(len(problems) - bad, 'warning')}")
    return bad


def show_findings(findings: Sequence[Problem | Finding]) -> None:
    """Print one line per finding, coloured by its level."""
    for finding in findings:
        colour = "red" if finding.level == "error" else "yellow"
        console.print(f"[{colour}]{finding.level}[/] ", end="")
        console.print(str(finding), markup=False)


def show_left_out(left_out: Mapping[str, str]) -> None:
    """Print the arrays that were written without their checksums."""
    for path, names in left_out.items():
        console.print(
            f"  {path} was written without {names}, which few readers of version 2 support;"
            " --checksum keeps it",
            markup=False,
        )


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None] | None]:
    """Provide a function that updates a progress bar, or None if there is no terminal."""
    if not errors.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task("chunks", total=None)

        def step(done: int, total: int, path: str) -> None:
            bar.update(task, completed=done, total=total, description=path)

        yield step
