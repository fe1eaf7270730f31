"""The answers of commands: for one thing, for several paths, for folders of hierarchies.

How a command is written (see `cli.options` for the other decorators)::

    @path_command("omnizarr size ocean.zarr", "omnizarr size --json lake/")
    @click.option("--exact", is_flag=True, help="Show all digits.")
    def size(path: str, node: str, exact: bool, storage_options: Options) -> Answer:
        '''Show the size of each PATH.

        PATH is a hierarchy, or a folder with hierarchies.
        '''
        number = ...                                     # raises what the library raises
        return Answer({"bytes": number}, partial(say, number))

- One line in the table `COMMANDS` of `cli.main` makes it a command. Its module is imported when the
  command runs, so that others start quickly: get what the library does from ``import omnizarr``
  (``omnizarr.verify(…)``), whose names are loaded on first use, rather than from its modules.
- An `Answer` has the result for JSON and as text: `say` and `show_table` print to standard output,
  `remark` to standard error. A command of one thing ends with ``return answer(data, show)``.
- A command returns its exit code: OK, or PROBLEMS if the data has problems. Errors of the library
  are raised; `cli.main` prints them as one line, with options in place of arguments (`OPTIONS`).
- What is replaced is confirmed: `may_overwrite` for a destination, `confirm` for others.
- `cli.jobs` runs jobs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import click

from omnizarr.cli.options import (
    Options,
    json_option,
    node_option,
    paths_argument,
    quiet_option,
    storage_option,
)
from omnizarr.cli.terminal import (
    FAILED,
    OK,
    PROBLEMS,
    USAGE,
    JsonResults,
    command_text,
    confirm,
    counted,
    error_json,
    is_interactive,
    say,
    say_json,
    show_error,
    wants_json,
)
from omnizarr.errors import InvalidArgument, OmnizarrError, Problem
from omnizarr.extension import Store, can_list, is_archive, lookup, redact_urls, resolve, stores

if TYPE_CHECKING:
    from omnizarr.bulk.checks import Finding


@dataclass(frozen=True)
class Answer:
    """The result of a command, or of a command for one of several paths."""

    data: dict[str, Any]  # for JSON
    show: Callable[[], object]  # prints it as text
    is_problem: bool = False
    value: Any = None  # the result itself, for a summary

    def give(self) -> int:
        """Print the answer, and return the exit code."""
        if wants_json():
            say_json(self.data)
        else:
            self.show()
        return PROBLEMS if self.is_problem else OK


def answer(data: dict[str, Any], show: Callable[[], object], is_problem: bool = False) -> int:
    """Print a result, as JSON if that was requested, and return the exit code."""
    return Answer(data, show, is_problem).give()


def say_lines(*lines: object) -> Callable[[], None]:
    """Return a function that prints lines."""

    def show() -> None:
        for line in lines:
            say(line)

    return show


def command(*lines: str, name: str | None = None) -> Callable[[Any], click.Command]:
    """Return a decorator: a command whose help ends with examples."""
    epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
    return click.command(name, epilog=epilog)


# Makes the total of all answers, for JSON and as text.
Summary: TypeAlias = Callable[[list[Answer]], tuple[Any, str]]


def path_command(
    *lines: str,
    name: str | None = None,
    node: bool = True,
    quiet: bool = False,
    summary: Summary | None = None,
) -> Callable[[Callable[..., Answer]], click.Command]:
    """Return a decorator: a command of several PATHs from the function that does one of them.

    `lines` are the examples of its help. The function takes the path, the storage options and,
    unless `node` is False, the path of a node.
    """

    def make(work: Callable[..., Answer]) -> click.Command:
        @wraps(work)
        def run(paths: tuple[str, ...], storage_options: Options, **given: Any) -> int:
            def each(path: str) -> Answer:
                return work(path=path, storage_options=storage_options, **given)

            return run_each(paths, each, summary=summary, storage_options=storage_options)

        own = vars(run).pop("__click_params__", [])
        made: Any = storage_option(json_option(run))
        made = quiet_option(made) if quiet else made
        made.__click_params__ = [*made.__click_params__, *own]
        made = paths_argument(node_option(made) if node else made)
        return command(*lines, name=name)(made)

    return make


def run_each(
    paths: Sequence[str],
    work: Callable[[str], Answer],
    *,
    summary: Summary | None = None,
    storage_options: Options = None,
    folders: bool = True,
    several: bool = False,
    headed: bool = True,
) -> int:
    """Do the work for each path, show its answer, go on after errors, and return the exit code.

    Folders of hierarchies count as the hierarchies in them, unless `folders` is False; `several`
    says that a single path is one of a folder, `headed` that the paths are shown. As JSON, with a
    line for each result as soon as it is there:
    ``{"results": [{"path": …, …}], "failures": [{"path": …, "error": …, "message": …}], "summary":
    …}``. As text: what the answers show, below the path if there are several, and at the end the
    text of the summary.
    """
    as_json = wants_json()
    answers: list[Answer] = []
    results = JsonResults()
    several, usage = several or len(paths) > 1, True
    for given in paths:
        for path in find_hierarchies(given, storage_options) if folders else (given,):
            several = several or path != given
            try:
                found = work(path)
            except (OmnizarrError, OSError) as e:
                if not several and not as_json:
                    raise
                usage = usage and isinstance(e, InvalidArgument)
                results.failures.append({"path": path, **error_json(e)})
                show_error(e, path)
                continue
            numbers = {key: n for key, n in found.data.items() if not isinstance(n, (list, dict))}
            answers.append(replace(found, data=numbers, show=bool))  # what a summary needs
            if as_json:
                results.add({"path": path, **found.data})
                continue
            if several and headed:
                say(f"{redact_urls(path)}:", colour="cyan", problem=found.is_problem)
            found.show()
            if several and headed:
                say()
    rest: dict[str, Any] = {}
    if summary is not None and (several or as_json):
        rest["summary"], text = summary(answers)
        if text and not as_json:
            say(text)
    if as_json:
        results.end(rest)
    if results.failures:
        return USAGE if usage else FAILED
    return PROBLEMS if any(found.is_problem for found in answers) else OK


# Problems


def count_errors(problems: Sequence[Problem]) -> int:
    """Return the number of problems that are errors."""
    return sum(problem.level == "error" for problem in problems)


def problems_answer(problems: Sequence[Problem], rules: bool = False) -> Answer:
    """Return the problems of a hierarchy as the answer of a command.

    With `rules`, each has the section of the specification and the place as a JSON pointer.
    """
    from omnizarr.extension import section_of  # noqa: PLC0415 - loaded where needed

    bad = count_errors(problems)
    counts = f"{counted(bad, 'error')}, {counted(len(problems) - bad, 'warning')}"
    listed = []
    for each in problems:
        found = {"level": each.level, "key": each.key, "field": each.field}
        if rules:
            found |= {"pointer": each.pointer, "rule": section_of(each)}
        listed.append({**found, "message": command_text(each.message)})
    data = {"ok": not bad, "errors": bad, "warnings": len(problems) - bad, "problems": listed}

    def show() -> None:
        for each in problems:
            show_finding(each, f" [{section_of(each)}]" if rules else "")
        say(counts)

    return Answer(data, show, bad > 0, value=problems)


def show_finding(finding: Problem | Finding, end: str = "") -> None:
    """Print a finding in one line, coloured by its level."""
    bad = finding.level == "error"
    say(finding.level, colour="red" if bad else "yellow", end=False, problem=bad)
    say(f" {command_text(str(finding))}{end}", problem=bad)


# Folders of hierarchies, and what is at a destination


def find_hierarchies(where: str, storage_options: Options = None) -> Iterator[str]:
    """Yield the outermost Zarr hierarchies in a folder, in order; ZIP files are among them.

    A path or URL that is a hierarchy itself, or has none below, is yielded as it is. Symbolic links
    to folders are followed only if they lead to a hierarchy.
    """
    for path in _relative_paths(where, storage_options):
        yield path_below(where, path) if path else where


def path_below(where: str, path: str) -> str:
    """Return the path or URL of what is below; the query of a URL, such as a token, stays."""
    if where.startswith(("http://", "https://", "file://")):
        start, question, query = where.partition("?")
        return f"{start.rstrip('/')}/{quote(path)}{question}{query}"
    return path if where == "." else f"{where.rstrip('/')}/{path}"


def _relative_paths(where: str, storage_options: Options) -> Iterator[str]:
    """Yield the paths of the hierarchies below, or an empty one."""
    found: Iterator[str] = iter(())
    with suppress(OmnizarrError):  # which the command reports
        if not is_archive(where) and not os.path.isfile(where):
            store = resolve(where, read_only=True, storage_options=storage_options)
            if not lookup.is_hierarchy(store, "") and can_list(store):
                found = _below(store, "")
    yield next(found, "")
    yield from found


def _below(store: Store, folder: str) -> Iterator[str]:
    """Yield the paths of hierarchies below a folder, relative to the store."""
    for path in lookup.list_folder(store, folder):
        if is_archive(path) or lookup.is_hierarchy(store, path):
            yield path
        elif not lookup.is_link(store, path):
            yield from _below(store, path)


def hierarchies_in(folder: str, storage_options: Options = None) -> dict[str, str] | None:
    """Return the hierarchies of a folder by their paths relative to it.

    None for what is a hierarchy itself, or has none below.
    """
    found = [*_relative_paths(folder, storage_options)]
    return None if found == [""] else {path: path_below(folder, path) for path in found}


def is_complete(where: str, options: Options = None) -> bool:
    """Return True if there is a hierarchy at a path or URL, and nobody is writing it."""
    try:
        store = resolve(where, read_only=True, storage_options=options)
        return lookup.is_hierarchy(store, "", unfinished=False)
    except OmnizarrError:
        return False


def is_occupied(where: str, options: Options = None) -> bool:
    """Return True if there is anything at a path or URL."""
    try:
        store = resolve(where, read_only=True, storage_options=options)
        if not can_list(store):
            return lookup.is_hierarchy(store, "")
        keys, prefixes = stores.list_dir(store, "")
    except OmnizarrError:  # a file that is no archive, for instance; the command reports it
        return os.path.exists(where)
    return bool([*keys, *prefixes])


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
