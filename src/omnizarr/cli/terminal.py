"""Output of the commands on a terminal, in a pipe and as JSON; exit codes; questions.

How a command is written (see `cli.options` for the decorators)::

    @click.command(epilog=examples("omnizarr size ocean.zarr", "omnizarr size --json lake/"))
    @paths_argument
    @json_option
    @storage_option
    def size(paths: tuple[str, ...], as_json: bool, storage_options: Options) -> None:
        '''Show the size of each PATH.

        PATH is a hierarchy, or a folder with hierarchies.
        '''
        def measure(path: str) -> int: ...                # raises what the library raises
        sys.exit(
            run_each(paths, measure, show, to_json=lambda n: {"bytes": n}, as_json=as_json,
                     storage_options=storage_options)
        )

- One line in the table `COMMANDS` of `cli.main` makes it a command. Its module is imported when the
  command runs, so that others start quickly: get what the library does from ``import omnizarr``
  (``omnizarr.verify(…)``), whose names are loaded on first use, rather than from its modules.
- Text goes to standard output by `say`, tables by `show_table`; remarks go to standard error by
  `remark`. With ``--json``, only `say_json` writes to standard output, once: an object, or for
  commands of several paths ``{"results": […], "failures": […]}`` as `run_each` does.
- Errors of the library are raised; `cli.main` prints them as one line, and translates arguments
  that the message recommends (``overwrite=True``) to options (`OPTIONS`).
- End with ``sys.exit(PROBLEMS)`` if the data has problems; the other codes come by themselves.
- What is replaced is confirmed: `may_overwrite` for a destination, `confirm` for others.
- A job: ``with progress_bar(unit="bytes") as step: omnizarr.run(job, progress=step)``; the bar is
  drawn on standard error if that is a terminal.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from omnizarr import errors
from omnizarr.cli.options import QUIET, Options
from omnizarr.errors import InvalidArgument, OmnizarrError, Problem
from omnizarr.extension import (
    Store,
    can_list,
    is_archive,
    is_hierarchy,
    is_link,
    list_dir,
    list_folder,
    redact_urls,
    resolve,
)

if TYPE_CHECKING:
    from omnizarr.bulk.checks.findings import Finding

T = TypeVar("T")

# Exit codes.
OK = 0
PROBLEMS = 1  # damage, differences, invalid metadata: the answer to what was asked
USAGE = 2  # wrong arguments
FAILED = 3  # a path is missing, the store failed, there is no space, output cannot be written …
INTERRUPTED = 4  # by Ctrl-C or SIGTERM; where there is --resume, it goes on from there
BROKEN_PIPE = 141  # the reader has closed the pipe; what the shell says of other programs

LISTED = 8  # names in a line

# Calls and arguments that the library's messages recommend, and the commands and options in their
# place; longer ones first.
OPTIONS = {
    "call consolidate_metadata again": "run omnizarr consolidate PATH",
    "Call consolidate_metadata again": "Run omnizarr consolidate PATH",
    "with consolidate_metadata": "with omnizarr consolidate PATH",
    "with copy_hierarchy": "with omnizarr copy",
    "give the path of one": "give one with --node",
    "rules: no array matches": "no array matches",
    "The same call with resume=True": "The same command with --resume",
    "the same call with resume=True": "the same command with --resume",
    "read the pixels and write them with omnizarr.ome.write(…, axes=…)": (
        "import it with --no-image, then write the image with omnizarr pyramid --axes"
    ),
    "overwrite=True": "--overwrite",
    "in_place=True": "--in-place",
    "checksum=True": "--checksum",
    "resume=True": "--resume",
    "exclude=": "--exclude",
    "skip_damaged=True": "--skip-damaged",
    "update=True": "--update",
    "delete=True": "--delete",
    "link=True": "--link",
    "consolidated=True": "--consolidated",
    "memory=": "--memory ",
    "storage_options": "--storage-option",
    "casting='unsafe'": "--casting unsafe",
    "method='nearest'": "--method nearest",
    "dry_run=True": "--dry-run",
    "zarr_format=": "--zarr-format ",
    "leave zarr_format": "leave --zarr-format",
    "give the zarr_format": "give the --zarr-format",
    "give fill_value": "give --fill-value",
    "append_dim": "--append",
}


def examples(*lines: str) -> str:
    """Return the end of a command's help: two or more examples."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


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


def _colour(file: Any) -> bool | None:
    """Return False where no colours are wanted, None where click decides by the terminal."""
    return False if os.environ.get("NO_COLOR") else None


def _is_quiet() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


def say(
    text: object = "", *, colour: str | None = None, end: bool = True, problem: bool = False
) -> None:
    """Print to standard output; with ``--quiet``, only what is a problem."""
    if not problem and _is_quiet():
        return
    styled = str(text) if colour is None else click.style(str(text), fg=colour)
    click.echo(styled, nl=end, color=_colour(sys.stdout))


def remark(text: object, *, label: str = "", colour: str = "yellow") -> None:
    """Print to standard error, after a coloured label."""
    start = click.style(label, fg=colour, bold=True) + ": " if label else ""
    with suppress(OSError):  # there is no other place to say so; the exit code is right
        click.echo(f"{start}{text}", err=True, color=_colour(sys.stderr))


def say_json(data: Any) -> None:
    """Print one JSON document to standard output."""
    shown = _plain(_redacted(data))
    click.echo(json.dumps(shown, indent=2, ensure_ascii=False, allow_nan=False))


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


def _plain(value: Any) -> Any:
    """Return what JSON can express: NaN and infinities as text, as in metadata of version 3."""
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(member) for member in value]
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # NumPy
        return _plain(value.tolist())
    return str(value)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], right: str = "") -> None:
    """Print a table: with Rich on a terminal that is wide enough, else as plain aligned columns.

    `right` has the names of columns to align to the right, separated by spaces.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    aligned = [column in right.split() for column in columns]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    framed = sum(widths) + 3 * len(widths) + 2
    if not sys.stdout.isatty() or framed > shutil.get_terminal_size().columns:
        for row in (columns, *cells):
            parts = [
                cell.rjust(width) if flush else cell.ljust(width)
                for cell, width, flush in zip(row, widths, aligned, strict=True)
            ]
            say("  ".join(parts).rstrip())
        return
    # Slow to import, and needed on a terminal only.
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=SIMPLE_HEAD)
    for column, flush in zip(columns, aligned, strict=True):
        table.add_column(column, justify="right" if flush else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)


def show_problems(problems: Sequence[Problem]) -> int:
    """Print every problem and return the number of errors."""
    show_findings(problems)
    bad = sum(p.level == "error" for p in problems)
    say(f"{counted(bad, 'error')}, {counted(len(problems) - bad, 'warning')}")
    return bad


def has_errors(problems: Sequence[Problem]) -> bool:
    """Return True if one of the problems is an error."""
    return any(problem.level == "error" for problem in problems)


def problems_json(problems: Sequence[Problem]) -> dict[str, Any]:
    """Return problems for JSON."""
    bad = sum(problem.level == "error" for problem in problems)
    listed = [
        {
            "level": p.level,
            "key": p.key,
            "field": p.field,
            "message": command_text(p.message),
        }
        for p in problems
    ]
    return {"ok": not bad, "errors": bad, "warnings": len(problems) - bad, "problems": listed}


def show_findings(findings: Sequence[Problem | Finding]) -> None:
    """Print one line per finding, coloured by its level."""
    for finding in findings:
        bad = finding.level == "error"
        say(finding.level, colour="red" if bad else "yellow", end=False, problem=bad)
        say(f" {command_text(str(finding))}", problem=bad)


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


_STORAGE_OPTION = re.compile(r"storage_options=\{'(\w+)': ([^{}]*|\{[^{}]*\})\}")


_CONFIGURED = re.compile(r", or omnizarr\.configure\([^()]*\)")  # only in a program


def _storage_option(found: re.Match[str]) -> str:
    name, value = found[1], found[2].replace("True", "true").replace("'", '"')
    return (
        f"--storage-option '{name}={value}'" if '"' in value else f"--storage-option {name}={value}"
    )


def command_text(text: str) -> str:
    """Return a text of the library with commands and options in place of calls and arguments."""
    text = _CONFIGURED.sub("", _STORAGE_OPTION.sub(_storage_option, text))
    for call, command in OPTIONS.items():
        text = text.replace(call, command)
    return text


def error_message(error: BaseException) -> str:
    """Return the message of an error and its notes, with options in place of arguments."""
    notes = getattr(error, "__notes__", ())
    return command_text("; ".join([str(error) or type(error).__name__, *notes]))


def show_error(error: BaseException, path: str = "", advice: str = "") -> None:
    """Print an error to standard error, as its class and message."""
    path = redact_urls(path)
    where = f"{path}: " if path and path not in str(error) else ""
    end = f"; {advice}" if advice else ""
    remark(f"{where}{error_message(error)}{end}", label=type(error).__name__, colour="red")


def error_json(error: BaseException) -> dict[str, str]:
    """Return an error for JSON: the name of its class in `omnizarr.errors`, and the message."""
    known = (kind for kind in type(error).__mro__ if vars(errors).get(kind.__name__) is kind)
    others = {OSError: errors.StoreError, ImportError: errors.MissingModule}
    kinds = (ours for kind, ours in others.items() if isinstance(error, kind))
    kind = next(known, None) or next(kinds, errors.OmnizarrError)
    return {"error": kind.__name__, "message": error_message(error)}


# Folders of stores, and what is at a destination


def find_below(where: str, options: Options = None) -> Iterator[str]:
    """Yield the outermost hierarchies at a path or URL or below it, in order."""
    try:
        if is_archive(where) or os.path.isfile(where):
            yield where
            return
        store = resolve(where, read_only=True, storage_options=options)
    except OmnizarrError:  # which the command reports
        yield where
        return
    if is_hierarchy(store, "") or not can_list(store):
        yield where
        return
    for prefix in _below(store, ""):
        yield f"{where.rstrip('/') or '/'}/{prefix}" if where != "." else prefix


def _below(store: Store, folder: str) -> Iterator[str]:
    """Yield the paths of hierarchies below a folder, relative to the store."""
    for path in list_folder(store, folder):
        if is_archive(path) or is_hierarchy(store, path):
            yield path
        elif not is_link(store, path):
            yield from _below(store, path)


def is_complete(where: str, options: Options = None) -> bool:
    """Return True if there is a hierarchy at a path or URL, and nobody is writing it."""
    try:
        store = resolve(where, read_only=True, storage_options=options)
        return is_hierarchy(store, "", unfinished=False)
    except OmnizarrError:
        return False


def is_occupied(where: str, options: Options = None) -> bool:
    """Return True if there is anything at a path or URL."""
    try:
        store = resolve(where, read_only=True, storage_options=options)
        if not can_list(store):
            return is_hierarchy(store, "")
        keys, prefixes = list_dir(store, "")
    except OmnizarrError:  # a file that is no archive, for instance; the command reports it
        return os.path.exists(where)
    return bool([*keys, *prefixes])


# Several paths


def find_hierarchies(where: str, storage_options: Options = None) -> Iterator[str]:
    """Yield the outermost Zarr hierarchies in a folder, in order; ZIP files are among them.

    A path or URL that is a hierarchy itself, or has none below, is yielded as it is. Symbolic links
    to folders are followed only if they lead to a hierarchy.
    """
    found = False
    for path in find_below(where, storage_options):
        found = True
        yield path
    if not found:
        yield where


def hierarchies_in(folder: str, storage_options: Options = None) -> dict[str, str] | None:
    """Return the hierarchies of a folder by their paths relative to it.

    None for what is a hierarchy itself, or has none below.
    """
    found = [*find_below(folder, storage_options)]
    if found in ([], [folder]):
        return None
    start = "" if folder == "." else folder.rstrip("/")
    return {path.removeprefix(start).lstrip("/"): path for path in found}


def run_each(
    paths: Sequence[str],
    work: Callable[[str], T],
    show: Callable[[T], None],
    *,
    to_json: Callable[[T], Any] = lambda result: result,
    is_problem: Callable[[T], bool] = lambda result: False,
    summary: Callable[[list[T]], Any] | None = None,
    as_json: bool = False,
    storage_options: Options = None,
    folders: bool = True,
    several: bool = False,
    headed: bool = True,
) -> int:
    """Do the work for each path, show its result, go on after errors, and return the exit code.

    Folders of hierarchies count as the hierarchies in them, unless `folders` is False; `several`
    says that a single path is one of a folder, `headed` that the paths are shown. As JSON:
    ``{"results": [{"path": …, …}], "failures": [{"path": …, "error": …, "message": …}], "summary":
    …}``, where `to_json` makes an object of a result. As text: what `show` prints, below the path
    if there are several, and at the end the text that `summary` returns.
    """
    results: list[T] = []
    shown: list[dict[str, Any]] = []
    failures: list[dict[str, str]] = []
    several, usage = several or len(paths) > 1, True
    for given in paths:
        for path in find_hierarchies(given, storage_options) if folders else (given,):
            several = several or path != given
            try:
                result = work(path)
            except (OmnizarrError, OSError) as e:
                if not several and not as_json:
                    raise
                usage = usage and isinstance(e, InvalidArgument)
                failures.append({"path": path, **error_json(e)})
                show_error(e, path)
                continue
            results.append(result)
            if as_json:
                shown.append({"path": path, **to_json(result)})
                continue
            if several and headed:
                say(f"{redact_urls(path)}:", colour="cyan", problem=is_problem(result))
            show(result)
            if several and headed:
                say()
    end = summary(results) if summary is not None and (several or as_json) else None
    if as_json:
        data: dict[str, Any] = {"results": shown, "failures": failures}
        say_json(data if end is None else {**data, "summary": end})
    elif several and end is not None:
        say(end)
    if failures:
        return USAGE if usage else FAILED
    return PROBLEMS if any(map(is_problem, results)) else OK


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


def may_overwrite(destination: str, overwrite: bool, options: Options = None) -> bool:
    """Return `overwrite`, or True if data is at the destination and the user agrees to replace it.

    Without a terminal nobody is asked, and the library refuses to replace what is there.
    """
    if overwrite or not is_interactive():
        return overwrite
    if not is_occupied(destination, options):
        return False
    confirm(f"{destination} exists. Replace it?", yes=False)
    return True


# Progress

Step = Callable[[int, int, str], None]


@contextmanager
def progress_bar(unit: str = "chunks") -> Iterator[Step | None]:
    """Provide a function that updates a progress bar, or None if there is no terminal.

    It takes the amount done, the total and the path at work; with the unit "bytes", the bar shows
    the rate. The total may be zero while it is not known.
    """
    if not sys.stderr.isatty() or _is_quiet():
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
