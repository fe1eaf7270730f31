"""Manual pages of the commands, made from what their help is made from: groff_man(7).

``python -m tests.cli.man FOLDER``, or ``make man``, writes them. A line that begins with a dot or
an apostrophe would be a request.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from omnizarr import __version__ as VERSION
from omnizarr.cli.main import main
from tests.cli.page import all_commands


def write_pages(folder: Path) -> list[Path]:
    """Write the pages of all commands, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = []
    for name, command in [("omnizarr", main), *all_commands(main, "omnizarr ")]:
        pages.append(folder / f"{name.replace(' ', '-')}.1")
        pages[-1].write_text(
            "".join(f"{line}\n" for line in _page(name, command)), encoding="ascii"
        )
    return pages


def _page(name: str, command: click.Command) -> Iterator[str]:
    """Yield the lines of the page of a command."""
    context = click.Context(command, info_name=name)
    title = name.replace(" ", "-")
    yield f'.TH {_text(title.upper())} 1 "" "omnizarr {VERSION}" "omnizarr"'
    yield from (".SH NAME", _text(f"{title} - ") + _text(command.get_short_help_str(200)))
    yield from (".SH SYNOPSIS", f".B {_text(name)}")
    yield _text(" ".join(command.collect_usage_pieces(context)))
    yield ".SH DESCRIPTION"
    paragraphs = re.split(r"\n{2,}", inspect.cleandoc(command.help or "").replace("\b\n", ""))
    for number, paragraph in enumerate(paragraphs):
        yield from ([".PP"] if number else [])
        yield from map(_text, paragraph.splitlines())
    options = [p for p in command.get_params(context) if isinstance(p, click.Option)]
    yield ".SH OPTIONS"
    for names, meaning in filter(None, (option.get_help_record(context) for option in options)):
        yield from (".TP", f".B {_text(names)}", _text(meaning))
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        for inner, member in all_commands(command):
            yield from (".TP", f".B {_text(inner)}", _text(member.get_short_help_str(200)))
    elif command.epilog:
        examples = command.epilog.replace("\b", "").strip().splitlines()[1:]
        yield from (".SH EXAMPLES", ".nf", *(_text(line.strip()) for line in examples), ".fi")
    if command is not main:
        yield from (".SH SEE ALSO", ".BR omnizarr (1)")


def _text(text: str) -> str:
    """Return text of which nothing is a request or an escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = text.replace("'", "\\(aq").replace('"', "\\(dq")
    text = re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", text)
    return f"\\&{text}" if text.startswith(".") else text


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
