"""The commands in docs/generated/commands.md, made from their own help and output.

After a change of a command, run ``python -m tests.cli.page`` from the top of the project. The JSON
of a command is shown as the types of what it prints for the data that `make_samples` writes.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import h5py
import numpy as np
from click.testing import CliRunner

import omnizarr as oz
from omnizarr.cli.main import COMMANDS, main
from omnizarr.stores.local.atomic_files import PARTIAL

PAGE = Path(__file__).parents[2] / "docs" / "generated" / "commands.md"
MARK = "<!-- What follows is made by `python -m tests.cli.page` from the commands themselves. -->\n"

# Objects whose members depend on the data.
FREE = {"attributes", "configuration", "old", "new"}
# Objects of values of one kind by name.
MAPS = {"counts", "error_counts", "states", "dimensions"}

SEVERAL = 4  # commands that have an option, for it to be described once
PLAN = "convert ocean.zarr planned.zarr --dry-run"  # whose JSON is like that of other jobs
# What is run to show the JSON of a command; several runs are shown one after the other.
SAMPLES: dict[str, list[str]] = {
    "info": ["info ocean.zarr ocean.zarr/deep/t sharded.zarr none.zarr"],
    "ls": ["ls -lr ocean.zarr"],
    "inventory": ["inventory sharded.zarr"],
    "tree": ["tree ocean.zarr"],
    "cat": ["cat ocean.zarr/deep/t"],
    "explain": ["explain ocean.zarr/deep/t"],
    "head": ["head ocean.zarr/deep/t"],
    "stats": ["stats ocean.zarr --bins 4 --range 0 40"],
    "diff": [
        "diff ocean.zarr/deep/t sharded.zarr",
        "diff ocean.zarr/deep/t other.zarr",
        "diff lake other-lake",
    ],
    "du": ["du ocean.zarr"],
    "preview": ["preview image.zarr image.png"],
    "serve": ["serve ocean.zarr --port 0 --seconds 0"],
    "create": ["create new.zarr --shape 3"],
    "attrs": ["attrs sharded.zarr --set by=me"],
    "consolidate": ["consolidate ocean.zarr"],
    "copy": ["copy ocean.zarr copied.zarr --verify"],
    "validate": ["validate ocean.zarr invalid.zarr"],
    "verify": ["verify ocean.zarr damaged.zarr"],
    "repair": ["repair damaged.zarr --older-than 0"],
    "convert": ["convert ocean.zarr two.zarr --zarr-format 2", "convert lake lake3"],
    "rechunk": ["rechunk ocean.zarr new-chunks.zarr --chunks y=20,x=5"],
    "import": ["import data.npy imported.zarr"],
    "export": ["export ocean.zarr exported.h5 --node deep/t"],
    "pyramid": ["pyramid sharded.zarr pyramid.zarr --axes yx --levels 2"],
    "cf info": ["cf info ocean.zarr"],
    "cf validate": ["cf validate ocean.zarr wrong.zarr"],
    "geo info": ["geo info map.zarr"],
    "ome info": ["ome info image.zarr plate.zarr"],
    "ome validate": ["ome validate image.zarr"],
}


def make_samples() -> None:
    """Write small hierarchies into the working directory."""
    group = oz.create_group("ocean.zarr", attributes={"title": "sea"})
    data = np.arange(600, dtype="i4").reshape(20, 30)
    group.create_array("deep/t", data=data, chunks=(10, 10), dimension_names=["y", "x"])
    oz.create_array("sharded.zarr", data=data, chunks=(5, 5), shards=(10, 10))
    oz.create_array("other.zarr", data=data + 1, chunks=(5, 5))
    for folder in ("lake", "other-lake"):
        oz.create_array(f"{folder}/a.zarr", data=data, zarr_format=2)
    np.save("data.npy", data)
    with h5py.File("data.h5", "w") as file:
        file["data"] = data
    oz.create_array("damaged.zarr", data=data, chunks=(10, 10))
    Path("damaged.zarr/c/0/0").write_bytes(b"damaged")
    Path(f"damaged.zarr/zarr.json{PARTIAL}99999999_1f").write_bytes(b"")
    oz.create_array("invalid.zarr", shape=3)
    text = Path("invalid.zarr/zarr.json").read_text()
    Path("invalid.zarr/zarr.json").write_text(text.replace('"shape":', '"shapes":'))
    wrong = oz.create_group("wrong.zarr")
    for length in (3, 4):
        wrong.create_array(str(length), shape=length, dimension_names=["x"])
    oz.geo.write("map.zarr", data, crs="EPSG:4326", bounds=(0, 0, 30, 20), levels=2)
    oz.ome.write("image.zarr", data, levels=2, unit="micrometer")
    oz.ome.write_plate("plate.zarr", {"A/1": [data]}, levels=1)


def all_commands(group: click.Group, start: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield the full name of each command, and of each group, in the order of the help."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            raise LookupError(name)
        yield f"{start}{name}", command
        if isinstance(command, click.Group):
            yield from all_commands(command, f"{start}{name} ")


def generated() -> str:
    """Return the generated part of the page."""
    commands = dict(all_commands(main))
    lines = ["\n## Options of many commands\n", *_option_table(list(_common().values()))]
    schemas = _schemas()
    lines += [f"\nWith `--dry-run --json`, a job prints its plan:\n\n```\n{schemas['']}\n```"]
    for section, targets in COMMANDS.items():
        lines.append(f"\n## {section}")
        for name, command in commands.items():
            if name.partition(" ")[0] in targets:
                lines += _about(name, command, schemas.get(name))
    return "\n".join(lines) + "\n"


@cache
def _common() -> dict[str, click.Option]:
    """Return the options that several commands have with the same help, by their longest name."""
    count: Counter[tuple[str, str]] = Counter()
    found = {}
    for _, command in all_commands(main):
        for option in command.params:
            if isinstance(option, click.Option):
                name = max(option.opts, key=len)
                count[name, option.help or ""] += 1
                found[name, option.help or ""] = option
    return {name: found[name, text] for (name, text), number in count.items() if number >= SEVERAL}


def _is_common(option: click.Option) -> bool:
    shared = _common().get(max(option.opts, key=len))
    return shared is not None and shared.help == option.help


def _about(name: str, command: click.Command, schema: str | None) -> Iterator[str]:
    yield f"\n### omnizarr {name}\n"
    if not isinstance(command, click.Group):
        yield f"`omnizarr {name} {_usage(command)}`\n"
    yield inspect.cleandoc(command.help or "").replace("\b\n", "")
    options = [p for p in command.params if isinstance(p, click.Option)]
    own = [p for p in options if not _is_common(p)]
    if own:
        yield ""
        yield from _option_table(own)
    more = [p for p in options if _is_common(p)]
    if more:
        names = ", ".join(f"`{max(p.opts, key=len)}`" for p in more)
        yield f"\n{'Also' if own else 'Options:'} {names}."
    if command.epilog:
        found = [line.strip() for line in command.epilog.replace("\b", "").splitlines()]
        yield "\n```console"
        yield from [line for line in found if line and line != "Examples:"]
        yield "```"
    if schema is not None:
        yield f"\nJSON:\n\n```\n{schema}\n```"


def _usage(command: click.Command) -> str:
    """Return the arguments of a command as its help shows them."""
    words = ["[OPTIONS]"]
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            word = parameter.metavar or str(parameter.name).upper()
            if parameter.nargs == -1 and not word.endswith("..."):
                word += "..."
            words.append(word if parameter.required else f"[{word}]")
    return " ".join(words)


def _option_table(options: list[click.Option]) -> Iterator[str]:
    yield "| option | meaning |"
    yield "| --- | --- |"
    for option in options:
        if option.hidden:
            continue
        names = sorted([*option.opts, *option.secondary_opts], key=lambda n: (len(n) > 2, n))
        value = _value_name(option)
        text = (option.help or "").replace("|", "\\|")
        if option.show_default and option.default not in (None, False):
            text += f" Default: {option.default}."
        given = ", ".join(f"`{name}{value}`" for name in names)
        yield f"| {given} | {text} |"


def _value_name(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if option.metavar:
        return f" {option.metavar}"
    if isinstance(option.type, click.Choice):
        return " " + "\\|".join(map(str, option.type.choices))
    return f" {option.type.name.upper().split(' ')[0]}"


# JSON


def _schemas() -> dict[str, str]:
    """Return the shape of the JSON of each command that has a sample."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        make_samples()
        found = {}
        for name, runs in {**SAMPLES, "": [PLAN]}.items():
            found[name] = "\n".join(json_shape([_run(words)]) for words in runs)
    return found


def _run(words: str) -> Any:
    environment = {"HOME": os.getcwd(), "XDG_DATA_HOME": None, "XDG_CONFIG_HOME": None}
    done = CliRunner(env=environment).invoke(main, [*words.split(), "--json"])
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"omnizarr {words} --json printed {done.output!r}") from None


def json_shape(values: list[Any], indent: str = "", name: str = "") -> str:
    """Return the common type of JSON values: members and elements are merged."""
    objects = [v for v in values if isinstance(v, dict)]
    lists = [v for v in values if isinstance(v, list)]
    kinds = []
    if objects:
        kinds.append(_object_shape(objects, indent, name))
    if lists:
        members = [member for each in lists for member in each]
        kinds.append(f"[{json_shape(members, indent, name)}]" if members else "[…]")
    for kind, types in (("boolean", bool), ("number", (int, float)), ("text", str)):
        if any(isinstance(v, types) and (types is bool or type(v) is not bool) for v in values):
            kinds.append(kind)
    if any(v is None for v in values):
        kinds.append("null")
    return " or ".join(kinds) or "…"


def _object_shape(objects: list[dict[str, Any]], indent: str, name: str) -> str:
    if name in FREE:
        return "{…}"
    names = list(dict.fromkeys(key for each in objects for key in each))
    if names and (name in MAPS or all(re.search(r"[/. ]", key) for key in names)):  # or paths
        inner = json_shape([v for each in objects for v in each.values()], indent)
        return "{…: " + inner + "}"
    lines = []
    for key in names:
        shape = json_shape([each[key] for each in objects if key in each], indent + "  ", key)
        optional = "?" if any(key not in each for each in objects) else ""
        lines.append(f"{indent}  {key}{optional}: {shape}")
    return "{\n" + "\n".join(lines) + "\n" + indent + "}" if lines else "{…}"


def rewrite() -> None:
    """Replace the generated part of the page."""
    head = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(head + MARK + generated(), encoding="utf-8")


if __name__ == "__main__":
    rewrite()
