"""Output of the commands on a terminal, in a pipe and as JSON; exit codes; questions."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click

from omnizarr import errors
from omnizarr.cli.options import JSON, QUIET
from omnizarr.extension import redact_urls

# Exit codes.
OK = 0
PROBLEMS = 1  # damage, differences, invalid metadata: the answer to what was asked
USAGE = 2  # wrong arguments
FAILED = 3  # a path is missing, the store failed, there is no space, output cannot be written …
INTERRUPTED = 4  # by Ctrl-C or SIGTERM; where there is --resume, it goes on from there
BROKEN_PIPE = 141  # the reader has closed the pipe; what the shell says of other programs

LISTED = 8  # names in a line

# Calls and arguments that the library's messages recommend, and what replaces them.
_TEXTS = {
    "call consolidate_metadata again": "run omnizarr consolidate PATH",
    "Call consolidate_metadata again": "Run omnizarr consolidate PATH",
    "consolidate_metadata": "omnizarr consolidate PATH",
    "with omnizarr.copy": "with omnizarr copy",
    "give the path of one": "give one with --node",
    "rules: no array": "no array",
    "he same call with": "he same command with",
    "read the pixels and write them with omnizarr.ome.write(…, axes=…)": (
        "import it with --no-image, then write the image with omnizarr pyramid --axes"
    ),
    "storage_options": "--storage-option",
}
_FLAG = re.compile(r"\b([a-z][a-z_]+)=True\b")
_ARGUMENT = re.compile(r"\b(casting|exclude|memory|method|variable|zarr_format)=")
_NAME = re.compile(r"(?<=give |eave | the )(fill_value|zarr_format)\b")
_STORAGE_OPTION = re.compile(r"storage_options=\{'(\w+)': ([^{}]*|\{[^{}]*\})\}")
_CONFIGURED = re.compile(r", or omnizarr\.configure\([^()]*\)")  # only in a program


def counted(number: int, what: str) -> str:
    """Return a number with a noun in singular or plural."""
    if number != 1:
        what = f"{what[:-1]}ies" if what == "hierarchy" else f"{what}s"
    return f"{number} {what}"


def listed(names: Sequence[str]) -> str:
    """Return names separated by commas: the first ones, and the number of the others."""
    more = f", … ({len(names) - LISTED} more)" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


# Text


def _is_asked(key: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(key))


def wants_json() -> bool:
    """Return True if JSON was requested."""
    return _is_asked(JSON)


def _colour() -> bool | None:
    """Return False where no colours are wanted, None where click decides by the terminal."""
    return False if os.environ.get("NO_COLOR") else None


def say(
    text: object = "", *, colour: str | None = None, end: bool = True, problem: bool = False
) -> None:
    """Print to standard output; with ``--quiet``, only what is a problem."""
    if not problem and _is_asked(QUIET):
        return
    styled = str(text) if colour is None else click.style(str(text), fg=colour)
    click.echo(styled, nl=end, color=_colour())


def remark(text: object, *, label: str = "", colour: str = "yellow") -> None:
    """Print to standard error, after a coloured label."""
    start = click.style(label, fg=colour, bold=True) + ": " if label else ""
    with suppress(OSError):  # there is no other place to say so; the exit code is right
        click.echo(f"{start}{text}", err=True, color=_colour())


def say_json(data: Any, indent: int | None = 2) -> None:
    """Print one JSON document to standard output; in one line if `indent` is None."""
    click.echo(_json_text(data, indent))


def _json_text(data: Any, indent: int | None = None) -> str:
    shown = json_value(_redacted(data))
    return json.dumps(shown, indent=indent, ensure_ascii=False, allow_nan=False)


class JsonResults:
    """A JSON document of results, each of which is printed in its own line when it is there."""

    def __init__(self) -> None:
        self.failures: list[dict[str, str]] = []
        self.begun = False
        click.get_current_context().meta[_RESULTS] = self

    def add(self, result: Mapping[str, Any]) -> None:
        """Print a result."""
        click.echo((",\n" if self.begun else '{"results": [\n') + _json_text(result), nl=False)
        self.begun = True

    def end(self, rest: Mapping[str, Any]) -> None:
        """Print the failures, and the other members of the document."""
        start = "\n], " if self.begun else '{"results": [], '
        click.echo(start + _json_text({"failures": self.failures, **rest})[1:])
        del click.get_current_context().meta[_RESULTS]


def end_json(error: Mapping[str, Any]) -> None:
    """Print an error as the end of the results that were printed, or as a line of JSON."""
    context = click.get_current_context(silent=True)
    results = None if context is None else context.meta.get(_RESULTS)
    if results is not None and results.begun:
        results.end(error)
    else:
        say_json(error, indent=None)


_RESULTS = "omnizarr.results"  # in the meta of a context: the `JsonResults` that are printed
_PLACES = ("path", "source", "destination", "a", "b")  # fields of results that may be URLs


def _redacted(data: Any) -> Any:
    """Return a result without what may be secret in the URLs that were given."""
    if isinstance(data, list):
        return [_redacted(each) for each in data]
    if not isinstance(data, Mapping):
        return data
    found = {
        key: redact_urls(value) if key in _PLACES and isinstance(value, str) else value
        for key, value in data.items()
    }
    nested = {key: _redacted(found[key]) for key in ("results", "failures") if key in found}
    return {**found, **nested}


def json_value(value: Any) -> Any:
    """Return what JSON can express: NaN and infinities as text, as in metadata of version 3."""
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): json_value(member) for key, member in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(member) for member in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if hasattr(value, "tolist"):  # NumPy
        return json_value(value.tolist())
    return str(value)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], right: str = "") -> None:
    """Print aligned columns; `right` has the names of those to align to the right."""
    table = [columns, *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    align = [str.rjust if column in right.split() else str.ljust for column in columns]
    for row in table:
        cells = zip(align, row, widths, strict=True)
        say("  ".join(put(cell, width) for put, cell, width in cells).rstrip())


def show_left_out(left_out: Mapping[str, str]) -> None:
    """Print the arrays that were written without their checksums."""
    by_names: dict[str, list[str]] = {}
    for path, names in left_out.items():
        by_names.setdefault(names, []).append(path)
    for names, found in by_names.items():
        say(
            f"  {counted(len(found), 'array')} written without {names}, which few readers of"
            f" version 2 support (--checksum keeps it): {listed(found)}"
        )


# Errors


def _storage_option(found: re.Match[str]) -> str:
    value = found[2].replace("True", "true").replace("'", '"')
    quote = "'" if '"' in value else ""
    return f"--storage-option {quote}{found[1]}={value}{quote}"


def _option(found: re.Match[str]) -> str:
    return f"--{found[1].replace('_', '-')}"


def command_text(text: str) -> str:
    """Return a text of the library with commands and options in place of calls and arguments."""
    text = _CONFIGURED.sub("", _STORAGE_OPTION.sub(_storage_option, text))
    for call, command in _TEXTS.items():
        text = text.replace(call, command)
    text = _ARGUMENT.sub(lambda found: f"{_option(found)} ", _FLAG.sub(_option, text))
    return _NAME.sub(_option, text)


def error_message(error: BaseException) -> str:
    """Return the message of an error and its notes, with options in place of arguments."""
    notes = getattr(error, "__notes__", ())
    return command_text("; ".join([str(error) or type(error).__name__, *notes]))


def show_error(error: BaseException, path: str = "", advice: str = "") -> None:
    """Print an error to standard error, as its class and message."""
    path = redact_urls(path)
    where = f"{path}: " if path and path not in str(error) else ""
    end = f"; {advice}" if advice else ""
    ours = isinstance(error, errors.OmnizarrError)
    name = error_json(error)["error"] if ours else type(error).__name__
    remark(f"{where}{error_message(error)}{end}", label=name, colour="red")


def error_json(error: BaseException) -> dict[str, str]:
    """Return an error for JSON: the name of its class in `omnizarr.errors`, and the message."""
    known = (kind for kind in type(error).__mro__ if vars(errors).get(kind.__name__) is kind)
    others = {OSError: errors.StoreError, ImportError: errors.MissingModule}
    kinds = (ours for kind, ours in others.items() if isinstance(error, kind))
    kind = next(known, None) or next(kinds, errors.OmnizarrError)
    return {"error": kind.__name__, "message": error_message(error)}


# Questions


def is_interactive() -> bool:
    """Return True if somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, yes: bool, option: str = "--yes") -> None:
    """Ask before something is replaced or deleted; without a terminal, `yes` has to be given."""
    if yes:
        return
    if not is_interactive():
        raise click.UsageError(f"{question} Nothing was changed; give {option} to go on.")
    click.confirm(question, abort=True, err=True)


# Progress

Step = Callable[[int, int, str], None]


@contextmanager
def progress_bar(unit: str = "chunks") -> Iterator[Step | None]:
    """Provide a function that updates a progress bar, or None if there is no terminal.

    It takes the amount done, the total and the path at work; with the unit "bytes", the bar shows
    the rate. The total may be zero while it is not known.
    """
    if not sys.stderr.isatty() or _is_asked(QUIET):
        yield None
        return
    # Slow to import, and needed on a terminal only.
    from rich import progress  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    columns: list[progress.ProgressColumn] = [
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
    ]
    if unit == "bytes":
        columns += [progress.DownloadColumn(), progress.TransferSpeedColumn()]
    else:
        columns.append(progress.MofNCompleteColumn())
    columns += [progress.TimeRemainingColumn(), progress.TextColumn("left")]
    console = Console(stderr=True, highlight=False)
    with progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(unit, total=None)

        def step(done: int, total: int, path: str) -> None:
            bar.update(task, completed=done, total=total or None, description=path)

        yield step
