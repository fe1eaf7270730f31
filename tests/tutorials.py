"""Run the code of every page, and compare what it prints with what the page shows.

The blocks of a page run in order, in one namespace and in an empty folder:

- `python`: a block `text` that follows holds what it prints;
- `sh`: commands, whose output is not shown;
- `console`: lines that begin with `$ ` are commands, and the others their output.

`...` in an output stands for any text. `s3://bucket` is on a server of the test. Pictures that a
tutorial shows are files that its code writes. A comment before a block changes that:

- `<!-- not executed: REASON -->`: it does not run, which needs a reason that no test can remove.
- `<!-- executed with rasterio -->`: it runs in another Python, which has rasterio (`tests.peers`).
- `<!-- file: NAME -->`: it is written to a file.

In tables whose last column is `omnizarr`, the code of that column runs, and in another folder that
of the column before it; where both are expressions, their values must be equal.

`python -m tests.tutorials --write [NAME...]` puts the outputs and pictures of a run into the pages.
"""

from __future__ import annotations

import argparse
import ast
import glob
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from omnizarr.cli.main import main as main_command
from tests.peers import environments
from tests.servers.processes import s3_options
from tests.servers.s3 import SimpleStorage
from tests.servers.web import running

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
# With tables of code of another library and of omnizarr.
COMPARISONS = [ROOT / "docs" / "xarray.md", *sorted((ROOT / "docs" / "coming-from").glob("*.md"))]
WRITTEN = [p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent.name != "generated"]
PAGES = [ROOT / "README.md", *WRITTEN]
# These change zarr for the whole process.
ALONE = [ROOT / "docs" / "zarr-python.md"]
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TABLE = re.compile(r"^\|.*\| omnizarr \|\n\|[ |:-]+\|\n((?:^\|.*\|\n)+)", re.MULTILINE)
PICTURE = re.compile(r"!\[[^\]]+\]\(([\w-]+\.png)\)")
MARK = re.compile(r"<!-- (not executed: [^>]+|executed with rasterio|file: \S+) -->\n\Z")
SIZE = re.compile(r"(\d+(?:\.\d+)?)(?= (?:bytes|[kKM]i?B)\b)")
COMMENT = re.compile(r" {2,}# .*| *#.*")
# Commands that need no shell.
SIMPLE = re.compile(r"""omnizarr ([^|;<>()&$`]*?)( \| tail -n 1)?(; echo "exit code \$\?")?""")
SERVE = re.compile(r"omnizarr serve ([^|;<>()&$`]*)")
LARGEST = 60_000  # bytes of a picture
COMPARABLE = (np.ndarray, np.generic, bool, int, float, str, bytes, tuple, list, dict)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int
    start: int  # of the text, in the page
    mark: str  # the comment before it

    @property
    def executed(self) -> bool:
        """True if the examples of the page run in this Python with the others."""
        return not self.mark


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    return [
        Block(
            match[1],
            match[2],
            page.count("\n", 0, match.start()) + 1,
            match.start(2),
            found[1] if (found := MARK.search(page[: match.start()])) else "",
        )
        for match in BLOCK.finditer(page)
    ]


def matches(expected: str, printed: str) -> bool:
    """Return whether an output is as expected, where `...` stands for any text.

    Sizes may differ by a tenth: compressors do not give the same bytes in every version.
    """
    parts = SIZE.split(_stripped(expected))
    sizes = [float(part) for part in parts[1::2]]
    escaped = [re.escape(part).replace(r"\.\.\.", ".*?") for part in parts[::2]]
    found = re.fullmatch(r"(\d+(?:\.\d+)?)".join(escaped), _stripped(printed), re.DOTALL)
    return found is not None and np.allclose([float(n) for n in found.groups()], sizes, rtol=0.1)


def _stripped(output: str) -> str:
    return "\n".join(line.rstrip() for line in output.strip("\n").split("\n"))


class Session:
    """The names that the examples of a page define, and the folder in which they run."""

    def __init__(self, document: Path, folder: Path, warn: str = "error") -> None:
        self.document = document
        self.folder = folder
        self.warn: Any = warn  # what to do with warnings
        self.names: dict[str, Any] = {"__name__": "example"}

    def python(self, code: str, line: int = 0) -> tuple[str, Any]:
        """Run code; return what it printed, and the value of its last expression."""
        tree = ast.parse("\n" * line + code, str(self.document))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        value = None
        with chdir(self.folder), redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter(self.warn)
            exec(compile(tree, str(self.document), "exec", dont_inherit=True), self.names)
            if last is not None:
                expression = ast.Expression(last.value)
                program = compile(expression, str(self.document), "eval", dont_inherit=True)
                value = eval(program, self.names)
        return printed.getvalue(), value

    def elsewhere(self, code: str) -> str | None:
        """Run code in a Python with rasterio; return what it printed, None if there is none."""
        try:
            python = environments.rasterio()
        except pytest.skip.Exception:
            return None
        done = subprocess.run(
            [python, "-W", "ignore", "-c", code],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{self.document.name}: {done.stderr}")
        return done.stdout

    def console(self, text: str, commands: Path) -> str:
        """Run the commands of a block; return the block with what they print now."""
        shown: list[str] = []
        for command, expected in _commands(text):
            output = self.command(command, commands)
            output = expected if matches(expected, output) else _stripped(output)
            shown.append(f"$ {command}\n" + (output.strip("\n") + "\n" if output.strip() else ""))
        return "".join(shown)

    def script(self, text: str, commands: Path) -> None:
        """Run the commands of a block, one a line; a comment may follow after two blanks."""
        for line in text.replace("\\\n", "\\\0").splitlines():
            if command := COMMENT.sub("", line).rstrip().replace("\0", "\n"):
                self.command(command, commands)

    def command(self, command: str, commands: Path) -> str:
        """Run a command; return what it prints."""
        if serve := SERVE.fullmatch(command):
            code, output = self._serve(serve[1])
        elif simple := SIMPLE.fullmatch(command):
            code, output = self._omnizarr(*simple.groups())
        else:
            code, output = self._shell(command, commands)
        if code:
            raise RuntimeError(f"{self.document.name}: {command!r} failed:\n{output[-3000:]}")
        return output

    def _serve(self, arguments: str) -> tuple[int, str]:
        """Serve at any port until the address is printed, then press Ctrl-C."""
        command = [sys.executable, "-m", "omnizarr", "serve", *shlex.split(arguments)]
        with subprocess.Popen(
            [*command, "--port", "0"],
            cwd=self.folder,
            env=os.environ | {"BROWSER": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
        if "serving" not in first:
            return 1, first + rest
        return 0, re.sub(r":\d+/$", ":8089/", first)

    def _shell(self, command: str, commands: Path) -> tuple[int, str]:
        environment = os.environ | {
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # of all packages that are installed for tests
            "XDG_STATE_HOME": str(commands / "state"),
        }
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def _omnizarr(self, arguments: str, last: str | None, echo: str | None) -> tuple[int, str]:
        """Run the command in this process, which saves the start of another."""
        with chdir(self.folder):
            parts = shlex.split(arguments.replace("\\\n", ""))
            given = [f for p in parts for f in (sorted(glob.glob(p)) if "*" in p else [p])]
            done = CliRunner().invoke(main_command, given)
        output = done.output
        if last:
            output = output.rstrip().rpartition("\n")[2]
        return (0, f"{output}exit code {done.exit_code}\n") if echo else (done.exit_code, output)


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a block, each with the output that follows."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = re.sub(r"\\\n", "\\\\\0", part).partition("\n")
        yield command.replace("\0", "\n"), output


def _make_commands(folder: Path) -> None:
    """Make `omnizarr`, `python` and `pip` those of this environment."""
    python = shlex.quote(sys.executable)
    for name, command in (
        ("python", python),
        ("omnizarr", f"{python} -m omnizarr"),
        ("pip", f"{python} -m pip"),
    ):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(0o755)


def renewed(document: Path, folder: Path) -> str:
    """Run a page in `folder`, which is empty; return it with outputs that differ replaced.

    Lines are wrapped as in a terminal of 80 columns, which is the width of the site.
    """
    with patch.dict(os.environ, {"COLUMNS": "80"}), _bucket():
        return _renewed(document, folder)


@contextmanager
def _bucket() -> Iterator[None]:
    """Serve `s3://bucket` on the loopback address."""
    server = SimpleStorage()
    server.buckets["bucket"] = {}
    with running(server):
        names = {"endpoint": "AWS_ENDPOINT_URL_S3", "region": "AWS_REGION"}
        options = s3_options(server.url).items()
        variables = {names.get(k, f"AWS_{k.upper()}"): value for k, value in options}
        with patch.dict(os.environ, variables):
            yield


def _renewed(document: Path, folder: Path) -> str:
    page = document.read_text()
    ours, commands = folder / "ours", folder / "commands"
    ours.mkdir()
    commands.mkdir()
    _make_commands(commands)
    session = Session(document, ours)
    found, result, end = blocks(page), "", 0
    for number, block in enumerate(found):
        output = None
        if block.mark.startswith("file: "):
            file = ours / block.mark.removeprefix("file: ")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text)
        elif block.language == "python" and not block.mark.startswith("not"):
            if block.executed:
                printed, _ = session.python(block.text, block.line)
            elif (shown := session.elsewhere(block.text)) is not None:
                printed = shown
            else:
                continue
            after = found[number + 1] if number + 1 < len(found) else None
            if after is not None and after.language == "text":
                output = after.text if matches(after.text, printed) else _stripped(printed) + "\n"
                block = after
            elif printed and document in TUTORIALS:
                raise ValueError(f"{document.name}:{block.line} prints what no block shows")
        elif block.executed and block.language == "console":
            output = session.console(block.text, commands)
        elif block.executed and block.language == "sh":
            session.script(block.text, commands)
        if output is not None:
            result += page[end : block.start] + output
            end = block.start + len(block.text)
    return result + page[end:]


def pictures(document: Path) -> list[str]:
    """Return the names of the pictures that a page shows."""
    return PICTURE.findall(document.read_text())


def compare(document: Path, folder: Path) -> int:
    """Run the code of both columns of each table; return the number of values compared."""
    page = document.read_text()
    sessions = []
    for name, warn in (("theirs", "ignore"), ("ours", "error")):
        (folder / name).mkdir()
        sessions.append(Session(document, folder / name, warn))
    theirs, ours = sessions
    compared = 0
    steps = [(b.start, b) for b in blocks(page) if b.language == "python" and b.executed]
    steps += [(m.start(), m) for m in TABLE.finditer(page)]
    for number, (_, step) in enumerate(sorted(steps, key=lambda s: s[0])):
        if isinstance(step, Block):
            for session in sessions if number == 0 else [ours]:
                session.python(step.text, step.line)
            continue
        for row in step[1].splitlines():
            *_, left, right = (cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1])
            values = [_run_cell(theirs, left), _run_cell(ours, right)]
            if all(isinstance(value, COMPARABLE) for value in values):
                np.testing.assert_array_equal(values[1], values[0], err_msg=row)
                compared += 1
    return compared


def _run_cell(session: Session, cell: str) -> Any:
    """Run the code of a cell of a table; return the value of its last expression."""
    value = None
    for code in re.findall(r"`([^`]+)`", cell):
        try:
            value = session.python(code.replace("\\|", "|"))[1]
        except Exception as e:
            e.add_note(f"while running {code!r} of {session.document.name}")
            raise
    return value


def _shrink(source: Path, target: Path) -> None:
    """Copy a picture, with as many colours as it can have in the space for one."""
    target.write_bytes(source.read_bytes())
    with Image.open(source) as opened:
        for colours in (256, 128, 64, 32, 16):
            if target.stat().st_size <= LARGEST:
                break
            opened.convert("RGB").quantize(colours).save(target, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the code of pages.")
    parser.add_argument("names", nargs="*", help="such as climate; all tutorials by default")
    parser.add_argument(
        "--write", action="store_true", help="put outputs and pictures in the pages"
    )
    options = parser.parse_args()
    for document in PAGES if options.names else TUTORIALS:
        if options.names and document.stem not in options.names:
            continue
        with tempfile.TemporaryDirectory() as name:
            text = renewed(document, Path(name))
            same = text == document.read_text()
            print(f"{document.relative_to(ROOT)}: {'as shown' if same else 'differs'}")
            if options.write:
                document.write_text(text)
                for picture in pictures(document):
                    _shrink(Path(name, "ours", picture), document.with_name(picture))


if __name__ == "__main__":
    main()
