"""The `omnizarr` command: its commands, loaded when they run, and errors as one line."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NoReturn

import click

from omnizarr import __version__ as VERSION
from omnizarr import registry, trace
from omnizarr.cli.options import COMMAND, JSON, CommandGroup
from omnizarr.cli.terminal import (
    BROKEN_PIPE,
    FAILED,
    INTERRUPTED,
    OK,
    PROBLEMS,
    USAGE,
    command_text,
    end_json,
    error_json,
    error_message,
    remark,
    show_error,
)
from omnizarr.errors import InvalidArgument, OmnizarrError, StoreError

# Each command by its name, in the sections of the help: the function in the package `cli`, and the
# line of the help, which fits 80 columns; with it here, the help loads no command.
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Look": {
        "info": ("inspect:info", "Show metadata, codecs, sizes and attributes."),
        "ls": ("inspect:ls", "List arrays and groups."),
        "inventory": ("inspect:inventory", "List the arrays of a whole folder in one table."),
        "tree": ("inspect:tree", "Show arrays and groups as a tree."),
        "cat": ("inspect:cat", "Print all values, or a selection."),
        "explain": ("inspect:explain", "Show what a read costs before it is made."),
        "head": ("inspect:head", "Print the first values along each axis."),
        "stats": ("check:stats", "Show extremes, mean, standard deviation, histograms."),
        "diff": ("check:diff", "Show the differences between two hierarchies."),
        "du": ("check:du", "Show the stored bytes of every node."),
        "preview": ("inspect:preview", "Write a picture of an array or image to a file."),
        "serve": ("inspect:serve", "Show data in a browser, or serve it to programs."),
    },
    "Create and change": {
        "create": ("edit:create", "Create an empty array or group."),
        "attrs": ("edit:attrs", "Show or change attributes."),
        "consolidate": ("edit:consolidate", "Store the metadata of all nodes in one place."),
    },
    "Copy and convert": {
        "copy": ("copy:copy", "Copy byte for byte, or only what differs."),
        "convert": ("copy:convert", "Convert to another Zarr version."),
        "rechunk": ("copy:rechunk", "Change chunks, shards, compression or data types."),
        "import": ("files:import_", "Write HDF5, NetCDF4, TIFF or NumPy files as Zarr."),
        "export": ("files:export", "Write HDF5, NetCDF4 or TIFF files from Zarr."),
        "pyramid": ("files:pyramid", "Write an OME-Zarr image with levels, or add levels."),
    },
    "Check": {
        "validate": ("check:validate", "Check metadata."),
        "verify": ("check:verify", "Check metadata and chunks."),
        "repair": ("check:repair", "Remove what killed writers left behind."),
    },
    "Conventions": {
        "cf": ("conventions:cf", "Inspect CF and NetCDF datasets."),
        "geo": ("conventions:geo", "Inspect maps: reference system, bounds, levels."),
        "ome": ("conventions:ome", "Inspect and check OME-Zarr."),
    },
}
TARGETS = {name: target for rows in COMMANDS.values() for name, (target, _) in rows.items()}


class Main(CommandGroup):
    """The commands of the table; errors are printed as one line, without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(TARGETS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in TARGETS:
            self.commands[cmd_name] = registry.load(f"omnizarr.cli.{TARGETS[cmd_name]}")
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of each section with their line of help."""
        width = max(map(len, TARGETS))
        for section, rows in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in rows.items()])

    def main(self, *given: Any, **options: Any) -> Any:
        if sys.stdout is None:  # closed: writing fails as it does for other programs
            sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w")  # noqa: SIM115
        with _ending_by_signals():
            return super().main(*given, **options)

    def make_context(self, info_name: str | None, args: list[str], *given: Any, **more: Any) -> Any:
        ctx = click.Context(self)  # for errors of this one, such as help that cannot be printed
        ctx.meta[JSON] = _asks_for_json(args)
        try:
            return super().make_context(info_name, args, *given, **more)
        except (click.UsageError, OSError) as e:
            _fail(ctx, e)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[JSON] = _asks_for_json(args)  # also of a command whose options are wrong
        # Accepted after the command, too, where it is typed when something went wrong.
        end = args.index("--") if "--" in args else len(args)
        for flag in ("--debug", "--trace"):
            if flag in args[:end]:
                args = [flag, *(a for i, a in enumerate(args) if a != flag or i > end)]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        warnings.showwarning = _show_warning
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # text that no encoding has
        try:
            with _traced(ctx) if ctx.params.get("trace") else nullcontext():
                code = super().invoke(ctx)
            sys.exit(code if isinstance(code, int) else OK)
        except click.exceptions.Exit:
            raise
        except (Exception, KeyboardInterrupt) as e:
            _fail(ctx, e)


@contextmanager
def _traced(ctx: click.Context) -> Iterator[None]:
    """Print what the block cost to standard error, also if it fails."""
    with trace() as found:
        try:
            yield
        finally:
            as_json = ctx.meta.get(JSON)
            remark(json.dumps(found.to_json()) if as_json else str(found), label="")


def _asks_for_json(args: list[str]) -> bool:
    return "--json" in args[: args.index("--") if "--" in args else None]


class Signalled(KeyboardInterrupt):
    """A signal that ends programs has come; the argument is its name.

    CPython ends with status 130 after a plain KeyboardInterrupt that an `exec`, as in dataclasses,
    let pass, although it was handled later.
    """


@contextmanager
def _ending_by_signals() -> Iterator[None]:
    """Let a signal that ends programs act as Ctrl-C in the block; a second one exits at once."""
    received = 0

    def end(number: int, frame: Any) -> None:
        nonlocal received
        received += 1
        if received == 1:
            raise Signalled(signal.Signals(number).name)
        with suppress(OSError):
            os.write(2, b"interrupted again: ended at once\n")
        processes = sys.modules.get("multiprocessing")
        for child in processes.active_children() if processes is not None else ():
            child.kill()
        os._exit(INTERRUPTED)

    before = {}
    if threading.current_thread() is threading.main_thread():
        numbers = (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP"))
        for number in filter(None, numbers):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as by nohup
                before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    remark(command_text(str(message)), label="warning")


def _fail(ctx: click.Context, error: BaseException) -> NoReturn:
    """Print an error, with ``--json`` also as JSON, and end with its exit code."""
    if ctx.params.get("debug") and not isinstance(error, (click.ClickException, click.Abort)):
        traceback.print_exception(error)
    if isinstance(error, OSError) and _is_of_output(error):
        _fail_to_write(error)
    code, told = _show(ctx, error)
    if ctx.meta.get(JSON):
        try:
            end_json({**error_json(told), **_path_of(ctx, error)})
        except OSError as e:
            _fail_to_write(e)
    sys.exit(code)


def _show(ctx: click.Context, error: BaseException) -> tuple[int, BaseException]:
    """Print an error to standard error; return the exit code, and the error for JSON."""
    if isinstance(error, click.ClickException):
        with suppress(OSError):
            error.show()
        return error.exit_code, InvalidArgument(error.format_message())
    if isinstance(error, click.Abort):
        remark("Aborted!")
        return PROBLEMS, OmnizarrError("nothing was changed: the question was not answered by yes")
    if isinstance(error, KeyboardInterrupt):
        name = str(error) or "SIGINT"
        text = f"interrupted by {name}: {_again(ctx)}"
        remark(_again(ctx), label=f"interrupted by {name}", colour="red")
        return INTERRUPTED, OmnizarrError(text)
    code = USAGE if isinstance(error, InvalidArgument) else FAILED
    if isinstance(error, (OmnizarrError, OSError, MemoryError, ImportError)):
        show_error(error, advice=_advice(error, _again(ctx)))
        return code, error
    text = f"{type(error).__name__}: {error_message(error)}; run it with --debug and report this"
    remark(text, label="internal error", colour="red")
    return code, OmnizarrError(f"internal error: {text}")


def _is_of_output(error: OSError) -> bool:
    """Return True if writing to standard output failed; `remark` never raises."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_code is click.echo.__code__ for frame in frames)


def _fail_to_write(error: OSError) -> NoReturn:
    """End a command whose output cannot be written."""
    with suppress(OSError):  # for what is buffered
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):  # the reader, such as head, has closed the pipe
        sys.exit(BROKEN_PIPE)
    show_error(StoreError(f"cannot write to standard output: {error.strerror or error}"))
    sys.exit(FAILED)


def _path_of(ctx: click.Context, error: BaseException) -> dict[str, str]:
    """Return the path that an error is about, for JSON; nothing if it is not known."""
    command = ctx.meta.get(COMMAND)
    given = {} if command is None else command.params
    found = [getattr(error, "filename", None)]
    for name in ("source", "sources", "paths", "file", "files", "path"):
        value = given.get(name)
        found += value if isinstance(value, tuple) and len(value) == 1 else [value]
    return next(({"path": each} for each in found if isinstance(each, str)), {})


def _again(ctx: click.Context) -> str:
    """Return how to go on with a command that was stopped, and for writers what is safe."""
    command = ctx.meta.get(COMMAND)
    resumes = command is not None and any(p.name == "resume" for p in command.command.params)
    again = "run the same command with --resume to go on" if resumes else "run it again"
    reads = ctx.invoked_subcommand in {**COMMANDS["Look"], **COMMANDS["Check"]}
    return again if reads else f"nothing unfinished is visible; {again}"


def _advice(error: BaseException | None, again: str) -> str:
    """Return how to go on after a full disk or a lost connection; empty for other errors."""
    while error is not None:
        lost = isinstance(error, (ConnectionError, TimeoutError))
        if lost or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            return again
        error = error.__cause__ or error.__context__
    return ""


@click.group(cls=Main, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="omnizarr")
@click.option("--debug", is_flag=True, envvar="OMNIZARR_DEBUG", help="Show tracebacks of errors.")
@click.option("--trace", is_flag=True, help="Show requests, bytes, retries and waits at the end.")
def main(debug: bool, trace: bool) -> None:
    """Inspect, check, copy and convert Zarr data of versions 1, 2 and 3, and the draft of 3."""
