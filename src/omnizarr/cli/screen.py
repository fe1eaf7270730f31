"""Consoles, and the output of problems and progress, shared by the subcommands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from omnizarr.errors import Problem
from omnizarr.hierarchy.info import counted
from omnizarr.ops.verify import Finding

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
def watched() -> Iterator[Callable[[int, int, str], None] | None]:
    """Give a function that moves a progress bar, or None if there is no terminal."""
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
