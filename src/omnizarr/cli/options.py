"""Arguments and options that the commands share, and what their values mean.

A decorator here gives a command the parameter in brackets:

==================== =====================================================================
path_argument        PATH (`path`); `paths_argument`: PATH... (`paths`)
node_option          ``--node`` (`node`)
storage_option       ``--storage-option``, ``--profile`` (`storage_options`)
destination_option   ``--destination-option`` (`destination_options`)
other_option         ``--other-option`` (`other_options`)
json_option          ``--json`` (`as_json`)
quiet_option         ``--quiet`` (no parameter; see `terminal.say`)
dry_run_option       ``--dry-run`` (`dry_run`)
resume_option        ``--resume`` (`resume`)
overwrite_option     ``--overwrite``, ``--yes`` (`overwrite`); see `terminal.may_overwrite`
yes_option           ``--yes`` (`yes`); see `terminal.confirm`
zarr_format_option   ``--zarr-format`` (`zarr_format`)
chunks_option        ``--chunks`` (`chunks`); `shards_option`: ``--shards`` (`shards`);
                     `no_shards_option`: ``--no-shards`` (`no_shards`), see `shards_or_none`
codecs_option        ``--codecs`` (`codecs`)
checksum_option      ``--checksum`` (`checksum`)
memory_option        ``--memory`` (`memory`)
==================== =====================================================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import click

from omnizarr import registry
from omnizarr.errors import closest_name, known_names

F = TypeVar("F", bound=Callable[..., Any])
Options: TypeAlias = dict[str, Any] | None
Chunks: TypeAlias = "int | str | tuple[int, ...] | dict[str, int] | None"


# Names that other tools have for commands and options.
_COMMANDS = {
    "cp": "copy", "sync": "copy", "rsync": "copy", "mirror": "copy", "backup": "copy",
    "migrate": "convert", "upgrade": "convert", "translate": "convert",
    "recompress": "rechunk", "compress": "rechunk", "reshard": "rechunk", "shard": "rechunk",
    "repack": "rechunk", "cast": "rechunk", "astype": "rechunk",
    "check": "verify", "fsck": "verify", "scrub": "verify", "test": "verify", "lint": "validate",
    "fix": "repair", "clean": "repair", "gc": "repair", "list": "ls", "dir": "ls",
    "describe": "info", "inspect": "info", "stat": "info", "dump": "cat", "print": "cat",
    "size": "du", "usage": "du", "compare": "diff", "cmp": "diff", "attributes": "attrs",
    "metadata": "info", "meta": "info", "summary": "stats", "view": "serve", "browse": "serve",
    "plot": "preview", "show": "preview", "new": "create", "init": "create",
    "multiscale": "pyramid", "downsample": "pyramid",
}  # fmt: skip
_OPTIONS = {
    "--force": "--overwrite", "--clobber": "--overwrite", "--replace": "--overwrite",
    "--format": "--zarr-format", "--zarr-version": "--zarr-format", "--version": "--zarr-format",
    "--to": "--zarr-format", "--compressor": "--codecs", "--compression": "--codecs",
    "--compress": "--codecs", "--codec": "--codecs", "--chunk-shape": "--chunks",
    "--chunk-size": "--chunks", "--chunksize": "--chunks", "--shard-shape": "--shards",
    "--shard-size": "--shards", "--threads": "--workers", "--jobs": "--workers",
    "--processors": "--workers", "--mem": "--memory", "--max-mem": "--memory",
    "--max-memory": "--memory", "--variable": "--array", "--var": "--array", "--path": "--node",
    "--group": "--node", "--continue": "--resume", "--restart": "--resume",
    "--check": "--verify", "--simulate": "--dry-run", "--plan": "--dry-run", "--silent": "--quiet",
    "--inplace": "--in-place", "--in-situ": "--in-place", "--type": "--dtype",
    "--data-type": "--dtype", "--sharding": "--shards", "--storage-options": "--storage-option",
}  # fmt: skip


def suggest_option(error: click.NoSuchOption) -> None:
    """Have the error of an unknown option name the one that other tools call so."""
    meant = _OPTIONS.get(error.option_name)
    command = None if error.ctx is None else error.ctx.command
    if meant is not None and command is not None and any(meant in p.opts for p in command.params):
        vars(error)["possibilities"] = [meant]


class CommandGroup(click.Group):
    """A group that suggests a name for one that it does not know."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            names = self.list_commands(ctx)
            meant = _COMMANDS.get(name.lower())
            meant = meant if meant in names else closest_name(name, names)
            hint = f"did you mean {meant!r}?" if meant else f"known: {', '.join(names)}"
            ctx.fail(f"there is no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)


_PATH = click.Path(path_type=str)
path_argument = click.argument("path", type=_PATH)
paths_argument = click.argument("paths", metavar="PATH...", type=_PATH, nargs=-1, required=True)
node_option = click.option("--node", default="", help="Path of a node inside the hierarchy.")


def parse_pairs(context: click.Context, parameter: click.Parameter, given: Any) -> dict[str, Any]:
    """Return KEY=VALUE as a dictionary, with values as JSON or text; the callback of an option."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"expected KEY=VALUE, got {text!r}", context, parameter)
        found[name] = parse_value(value)
    return found


def _parse_options(context: click.Context, parameter: click.Parameter, given: Any) -> Options:
    """Return the given options as a dictionary, or None if there are none."""
    options = parse_pairs(context, parameter, given)
    profile = context.meta.get(_PROFILE)
    if profile is not None and parameter.name == "storage_options":
        options.setdefault("profile", profile)
    return options or None


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


def parse_numbers(text: str, kind: type[int] | type[float], option: str) -> tuple[float, ...]:
    """Return numbers that are separated by commas."""
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise click.UsageError(
            f"{option}: expected numbers separated by commas, got {text!r}"
        ) from None


def _repeatable(name: str, text: str) -> Callable[[F], F]:
    return click.option(
        name, f"{name.removeprefix('--').replace('-', '_')}s",
        multiple=True, metavar="KEY=VALUE", callback=_parse_options, help=text,
    )  # fmt: skip


_PROFILE = "omnizarr.profile"


def _keep_profile(context: click.Context, parameter: click.Parameter, given: str | None) -> None:
    if given is not None:
        context.meta[_PROFILE] = given


_storage_option = _repeatable(
    "--storage-option",
    "Option for the store of a URL, such as anonymous=true; may be repeated.",
)
_profile_option = click.option(
    "--profile",
    metavar="NAME",
    is_eager=True,  # before the storage options, which it becomes one of
    expose_value=False,
    callback=_keep_profile,
    help="Profile of ~/.aws/config and ~/.aws/credentials for s3:// URLs.",
)


def storage_option(command: F) -> F:
    """Add ``--storage-option`` and ``--profile``."""
    return _storage_option(_profile_option(command))


# For commands with a source and a destination; --storage-option applies to both.
destination_option = _repeatable(
    "--destination-option", "Like --storage-option, for DESTINATION only."
)
# The same for `diff`.
other_option = _repeatable("--other-option", "Like --storage-option, for B only.")
checksum_option = click.option(
    "--checksum",
    is_flag=True,
    help="Keep checksums in version 2, although few other readers support them.",
)
JSON = "omnizarr.as_json"  # in the meta of a context, True if JSON was requested
COMMAND = "omnizarr.command"  # in the meta of a context, the context of the command itself


def _keep_json(context: click.Context, parameter: click.Parameter, given: bool) -> bool:
    context.meta[JSON] = given
    context.meta[COMMAND] = context
    return given


json_option = click.option(
    "--json", "as_json", is_flag=True, is_eager=True, callback=_keep_json,
    help="Print JSON, and nothing else, on standard output.",
)  # fmt: skip
QUIET = "omnizarr.quiet"  # in the meta of a context, True if only problems are to be printed


def _keep_quiet(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    context.meta[QUIET] = given


quiet_option = click.option(
    "--quiet", "-q", is_flag=True, expose_value=False, callback=_keep_quiet,
    help="Print only problems: damage, differences, errors.",
)  # fmt: skip
RESUME = "omnizarr.resume"  # in the meta of a context, True if the command can go on


def _keep_resume(context: click.Context, parameter: click.Parameter, given: bool) -> bool:
    context.meta[RESUME] = True
    return given


resume_option = click.option(
    "--resume", is_flag=True, callback=_keep_resume, help="Go on with an interrupted run."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
overwrite_option = click.option(
    "--overwrite", "--yes", "-y", "overwrite", is_flag=True,
    help="Replace what is at DESTINATION. Without it, ask on a terminal, else refuse.",
)  # fmt: skip
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
memory_option = click.option(
    "--memory", metavar="SIZE", help="Memory of each process; 512MB by default."
)
zarr_format_option = click.option(
    "--zarr-format",
    type=click.Choice(["1", "2", "3-draft", "3"]),
    default=None,
    help="Zarr version to write.",
)


# Chunks and shards


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


def _length(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"expected a length, got {text!r}") from None
    if number != -1 and number < 1:
        raise ValueError(f"a length is at least 1, or -1 for the whole axis; got {number}")
    return number


def _parsed(parse: Callable[[str], Any]) -> Callable[..., Any]:
    """Return the callback of an option whose text `parse` understands."""

    def callback(context: click.Context, parameter: click.Parameter, given: str | None) -> Any:
        try:
            return None if given is None else parse(given)
        except ValueError as e:
            raise click.BadParameter(str(e), context, parameter) from None

    return callback


chunks_option = click.option(
    "--chunks", metavar="SHAPE", callback=_parsed(parse_chunks),
    help="Chunk shape, such as 1,100,100 or time=-1,lat=100 (-1: whole axis), or a size (1MB).",
)  # fmt: skip
shards_option = click.option(
    "--shards", metavar="SHAPE", callback=_parsed(parse_chunks),
    help="Shard shape, or a size such as 64MB.",
)  # fmt: skip
no_shards_option = click.option("--no-shards", is_flag=True, help="Store chunks without shards.")


def shards_or_none(shards: Any, no_shards: bool) -> Any:
    """Return the shards, or False for none of them."""
    if no_shards and shards is not None:
        raise click.UsageError("give --shards or --no-shards, not both")
    return False if no_shards else shards


# Codecs

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

codecs_option = click.option(
    "--codecs", metavar="CODECS", callback=_parsed(parse_codecs),
    help="Compression, such as zstd:5, blosc:lz4:5:shuffle or gzip:9,crc32c; none for none.",
)  # fmt: skip
