"""Arguments and options of commands, and what their values mean.

`options_of` gives a command the options of a job, from the fields that declare them
(`omnizarr.bulk.options`): name, type, default and help. `FIELDS` has what is typed differently on a
command line. Other decorators here give a command the parameter in brackets:

==================== =====================================================================
path_argument        PATH (`path`); `paths_argument`: PATH... (`paths`)
node_option          ``--node`` (`node`)
storage_option       ``--storage-option`` (`storage_options`)
json_option          ``--json`` (no parameter; see `terminal.answer`)
quiet_option         ``--quiet`` (no parameter; see `terminal.say`)
dry_run_option       ``--dry-run`` (`dry_run`)
yes_option           ``--yes`` (`yes`); see `terminal.confirm`
shared_option(NAME)  a row of `FIELDS`, for commands that run no job
==================== =====================================================================
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin

import click

from omnizarr import registry
from omnizarr.bulk.options import option_help
from omnizarr.errors import closest_name, known_names

F = TypeVar("F", bound=Callable[..., Any])
Options: TypeAlias = dict[str, Any] | None
Chunks: TypeAlias = "int | str | tuple[int, ...] | dict[str, int] | None"


class CommandGroup(click.Group):
    """A group that suggests a name for one that it does not know."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            names = self.list_commands(ctx)
            meant = closest_name(name, names)
            hint = f"did you mean {meant!r}?" if meant else f"known: {', '.join(names)}"
            ctx.fail(f"there is no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)


# What is kept in the meta of a context: True if JSON was requested, True if only problems are to be
# printed, and the context of the command itself.
JSON, QUIET, COMMAND = "omnizarr.as_json", "omnizarr.quiet", "omnizarr.command"


def _kept(key: str) -> Callable[..., None]:
    """Return the callback of an option that keeps its value in the context's `meta`."""

    def keep(context: click.Context, parameter: click.Parameter, given: bool) -> None:
        context.meta[key], context.meta[COMMAND] = given, context

    return keep


json_option = click.option(
    "--json", "as_json", is_flag=True, is_eager=True, expose_value=False, callback=_kept(JSON),
    help="Print JSON, and nothing else, on standard output.",
)  # fmt: skip
quiet_option = click.option(
    "--quiet", "-q", is_flag=True, expose_value=False, callback=_kept(QUIET),
    help="Print only problems: damage, differences, errors.",
)  # fmt: skip
_PATH = click.Path(path_type=str)
path_argument = click.argument("path", type=_PATH)
paths_argument = click.argument("paths", metavar="PATH...", type=_PATH, nargs=-1, required=True)
NODE = "Path of a node inside the hierarchy."
node_option = click.option("--node", default="", help=NODE)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show the plan.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


# Values


def parse_pairs(context: click.Context, parameter: click.Parameter, given: Any) -> dict[str, Any]:
    """Return KEY=VALUE as a dictionary, with values as JSON or text; the callback of an option."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"expected KEY=VALUE, got {text!r}", context, parameter)
        found[name] = parse_value(value)
    return found


def parse_value(text: str) -> Any:
    """Parse a value as JSON (``true``, 30, an object), or return the text itself.

    A number stays text if JSON would write it differently: ``007`` and ``1e5`` may be keys.
    """
    try:
        value = json.loads(text, parse_constant=_reject_constant)
    except ValueError:
        return text
    return text if isinstance(value, (int, float)) and json.dumps(value) != text else value


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def parse_sizes(text: str) -> tuple[float, ...]:
    """Parse numbers that are separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"expected numbers separated by commas, got {text!r}") from None


def parse_chunks(text: str) -> Chunks:
    """Parse a shape: ``100``, ``1,100,100``, ``time=-1,lat=100``, ``auto`` or a size (``16MB``).

    -1 means the whole axis. A dictionary has the lengths of named dimensions.
    """
    text = text.strip()
    if text == "auto" or re.fullmatch(r"\d+(\.\d+)?\s*[kKMGT]?i?B", text):
        return text
    parts = [part.strip() for part in text.strip("()[]").split(",") if part.strip()]
    if not parts:
        raise ValueError("expected lengths separated by commas")
    if any("=" in part for part in parts):
        named: dict[str, int] = {}
        for part in parts:
            name, _, length = part.partition("=")
            if not name or name in named:
                raise ValueError(f"expected NAME=LENGTH once for each dimension, got {part!r}")
            named[name.strip()] = _length(length)
        return named
    lengths = tuple(_length(part) for part in parts)
    return lengths[0] if len(lengths) == 1 and "," not in text else lengths


def parse_shards(text: str) -> Chunks | Literal[False]:
    """Parse a shape as `parse_chunks` does; return False for ``none``."""
    return False if text.strip() == "none" else parse_chunks(text)


def _length(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"expected a length, got {text!r}") from None
    if number != -1 and number < 1:
        raise ValueError(f"a length is at least 1, or -1 for the whole axis; got {number}")
    return number


# What follows a codec's name, in this order: zstd:5, blosc:zstd:5:bitshuffle.
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "zstd": ("level", "checksum"),
    "gzip": ("level",),
    "zlib": ("level",),
    "bz2": ("level",),
    "lzma": ("preset",),
    "lz4": ("acceleration",),
    "blosc": ("cname", "clevel", "shuffle"),
    "bytes": ("endian",),
    "crc32c": (),
    "transpose": ("order",),
    "shuffle": ("elementsize",),
    "delta": ("dtype",),
}
_VERSION_2 = ("zlib", "bz2", "lzma", "lz4", "shuffle", "delta")  # known by the ids of version 2


def parse_codecs(text: str) -> list[Any]:
    """Parse a chain of codecs: ``zstd:5``, ``blosc:lz4:5:shuffle,crc32c``, ``none``, or JSON.

    A codec is a name, then its arguments after colons, by position or as NAME=VALUE. Returns what
    `create_array` takes as `compressors` or as part of `codecs`.
    """
    text = text.strip()
    if text.startswith(("[", "{")):
        try:
            given = json.loads(text)
        except ValueError as e:
            raise ValueError(f"not JSON: {e}") from None
        return given if isinstance(given, list) else [given]
    if text in ("", "none"):
        return []
    return [_parse_codec(part.strip()) for part in text.split(",")]


def _parse_codec(text: str) -> dict[str, Any]:
    name, *arguments = text.split(":")
    if name not in _ARGUMENTS and registry.find("codec", name) is None:
        known = sorted({*_ARGUMENTS, *registry.names("codec")} - {"endian"})
        raise ValueError(f"unknown codec {name!r}; {known_names(name, known)}")
    expected = _ARGUMENTS.get(name, ())
    configuration: dict[str, Any] = {}
    for i, argument in enumerate(arguments):
        key, equals, value = argument.partition("=")
        if not equals:
            if i >= len(expected):
                some = f"{name}:{':'.join(expected).upper()}" if expected else f"{name} alone"
                raise ValueError(f"too many arguments in {text!r}; expected {some}")
            key, value = expected[i], argument
        configuration[key] = [int(n) for n in value.split("-")] if key == "order" else value
        if not isinstance(configuration[key], list):
            configuration[key] = parse_value(value)
    if name in _VERSION_2:
        return {"id": name, **configuration}
    return {"name": name, "configuration": configuration}


def codec_options(codecs: list[Any] | None) -> dict[str, Any]:
    """Return the options of `create_array` for a parsed chain: the default ones for None."""
    if codecs is None:
        return {}
    options: dict[str, Any] = {"filters": [], "compressors": []}
    for codec in codecs:
        name = str(codec.get("name") or codec.get("id")) if isinstance(codec, dict) else codec
        kind = _KINDS.get(name) or getattr(registry.find("codec", name), "kind", "")
        if kind == "array->bytes":
            options["serializer"] = codec
        else:
            options["filters" if kind == "array->array" else "compressors"].append(codec)
    return options


_KINDS = {"transpose": "array->array", "delta": "array->array", "bytes": "array->bytes"}


# Options of stores


def _parse_options(context: click.Context, parameter: click.Parameter, given: Any) -> Options:
    """Return the given options as a dictionary, or None if there are none."""
    return parse_pairs(context, parameter, given) or None


_PAIRS: dict[str, Any] = {"multiple": True, "metavar": "KEY=VALUE", "callback": _parse_options}
storage_option = click.option(
    "--storage-option", "storage_options", **_PAIRS,
    help="Option for the store of a URL, such as anonymous=true; may be repeated.",
)  # fmt: skip


# Options of jobs


def _parsed(parse: Callable[[str], Any]) -> Callable[..., Any]:
    """Return the callback of an option whose text `parse` understands."""

    def callback(context: click.Context, parameter: click.Parameter, given: str | None) -> Any:
        try:
            return None if given is None else parse(given)
        except ValueError as e:
            raise click.BadParameter(str(e), context, parameter) from None

    return callback


def _inverted(context: click.Context, parameter: click.Parameter, given: bool) -> bool:
    return not given


# Settings of options by the name of the field, in place of what its declaration gives: the names
# that are typed (`opts`), and arguments of `click.option`.
FIELDS: dict[str, dict[str, Any]] = {
    "node": {"help": NODE},
    "path": {"opts": ("--node", "path"), "help": NODE},
    "other_path": {"opts": ("--other-node", "other_path")},
    "zarr_format": {
        "type": click.Choice(["1", "2", "3-draft", "3"]),
        "help": "Zarr version to write.",
    },
    "chunks": {
        "metavar": "SHAPE",
        "callback": _parsed(parse_chunks),
        "help": "Chunk shape, such as 1,100,100 or time=-1,lat=100 (-1: whole axis), or a size"
        " (1MB).",
    },
    "shards": {
        "metavar": "SHAPE",
        "callback": _parsed(parse_chunks),
        "help": "Shard shape, or a size such as 64MB.",
    },
    "codecs": {
        "metavar": "CODECS",
        "callback": _parsed(parse_codecs),
        "help": "Compression, such as zstd:5, blosc:lz4:5:shuffle or gzip:9,crc32c; none for none.",
    },
    "overwrite": {
        "opts": ("--overwrite", "--yes", "-y", "overwrite"),
        "help": "Replace existing data; without this option, ask on a terminal, else refuse.",
    },
    "destination_options": {
        "opts": ("--destination-option", "destination_options"),
        **_PAIRS,
        "help": "Like --storage-option, for DESTINATION only.",
    },
    "other_options": {
        "opts": ("--other-option", "other_options"),
        **_PAIRS,
        "help": "Like --storage-option, for B only.",
    },
    "equal_nan": {
        "opts": ("--nan-differs", "equal_nan"),
        "default": False,
        "callback": _inverted,
        "help": "Treat NaN as different from NaN.",
    },
    "values": {
        "opts": ("--metadata-only", "values"),
        "default": False,
        "callback": _inverted,
        "help": "Do not compare values.",
    },
    "conventions": {
        "opts": ("--conventions/--no-conventions",),
        "default": True,
        "help": "Check OME-Zarr, CF and GeoZarr where they are declared (default), or not.",
    },
    "compare": {"type": click.Choice(["time", "size", "checksum"])},
    "scale": {"callback": _parsed(parse_sizes)},
    "fill_value": {"metavar": "VALUE", "callback": _parsed(parse_value)},
    "memory": {"metavar": "SIZE"},
    "dtype": {"metavar": "TYPE"},
    "temp": {"metavar": "PATH"},
    "passes": {"type": click.IntRange(1, 2)},
    "levels": {"type": click.IntRange(1)},
    "bins": {"type": click.IntRange(2), "metavar": "N"},
    "show": {"type": click.IntRange(0), "metavar": "N"},
    "rtol": {"type": click.FloatRange(0)},
    "atol": {"type": click.FloatRange(0)},
    "sample": {"type": click.FloatRange(0, 1, min_open=True)},
}
# The settings of --shards for commands that can also remove shards.
SHARDS_OR_NONE = {
    "callback": _parsed(parse_shards),
    "help": "Shard shape, or a size such as 64MB; none for no shards.",
}
_PATTERNS = {"multiple": True, "metavar": "PATTERN"}
_BY_TYPE: dict[str, dict[str, Any]] = {
    "bool": {"is_flag": True},
    "int": {"type": int},
    "float": {"type": float},
    "tuple[float, float]": {"type": float, "nargs": 2, "metavar": "LOW HIGH"},
    "Iterable[str] | str": _PATTERNS,
    "Sequence[str]": _PATTERNS,
}


def options_of(kind: type, *without: str, **changed: dict[str, Any]) -> Callable[[F], F]:
    """Return a decorator that adds the options that a job's class of options declares.

    `without` are fields that a command does not have, besides arguments and `storage_options`;
    `changed` has settings like those of `FIELDS`.
    """
    helps = option_help(kind)
    known = {each.name: each for each in fields(kind)}
    names = [
        name
        for name in helps
        if known[name].kw_only and known[name].init and name not in ("storage_options", *without)
    ]

    def add(command: F) -> F:
        for name in reversed(names):
            found = _settings(kind, known[name])
            found["help"] = _command_help(helps[name], known)
            command = _option(name, {**found, **FIELDS.get(name, {}), **changed.get(name, {})})(
                command
            )
        return command

    return add


def shared_option(name: str, **changed: Any) -> Callable[[F], F]:
    """Return a decorator that adds an option of `FIELDS`."""
    found = {"is_flag": True} if name == "overwrite" else {}
    return _option(name, {**found, **FIELDS[name], **changed})


def option_name(field: str) -> str:
    """Return the option for a field."""
    opts = FIELDS.get(field, {}).get("opts", (f"--{field.replace('_', '-')}",))
    return str(opts[0])


def _option(name: str, settings: dict[str, Any]) -> Callable[[F], F]:
    settings = dict(settings)
    opts = settings.pop("opts", (option_name(name), name))
    return click.option(*opts, **settings)


def _settings(kind: type, field: Field[Any]) -> dict[str, Any]:
    """Return the click settings that follow from a field's type and default."""
    written = str(field.type)
    plain = written.removesuffix(" | None")
    if written == "bool | None":
        option = f"--{field.name.replace('_', '-')}"
        return {"opts": (f"{option}/--no-{option[2:]}",), "default": None}
    found = dict(_BY_TYPE.get(plain, {}))
    for base in kind.__mro__:
        alias = getattr(sys.modules[base.__module__], plain, None)
        if get_origin(alias) is Literal:
            found = {"type": click.Choice(get_args(alias))}
    if field.default not in (None, MISSING, ()) and field.default is not False:
        found["default"] = str(field.default) if field.name == "zarr_format" else field.default
        found["show_default"] = field.default != ""
    return found


def _command_help(text: str, known: dict[str, Field[Any]]) -> str:
    """Return a help with options in place of arguments, and values as they are typed."""

    def typed(found: re.Match[str]) -> str:
        field = known.get(found[1])
        if field is None:
            return found[1]
        return option_name(field.name) if field.kw_only else field.name.upper()

    return re.sub(r"`([\w.]+)`", typed, re.sub(r'``"?(.*?)"?``', r"\1", text))
