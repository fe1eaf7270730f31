"""Configuration and options: zarr-python's keys and names, and what they mean here.

With zarr-python installed, ``zarr.config`` is its own object. Without it, `ZarrConfig` answers the
same keys. Where a key means something here, it is read when an array or group is opened or created.
"""

from __future__ import annotations

import ast
import copy
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from omnizarr import config as ours
from omnizarr.errors import InvalidMetadata
from omnizarr.formats import NAMES
from omnizarr.hierarchy.selection import ArrayConfig
from omnizarr.interop.zarr import library
from omnizarr.interop.zarr.errors import translating, warn

# The defaults of zarr-python's keys that programs read, as of the newest release.
DEFAULTS: dict[str, Any] = {
    "default_zarr_format": 3,
    "array": {
        "order": "C",
        "write_empty_chunks": False,
        "read_missing_chunks": True,
        "target_shard_size_bytes": None,
        "rectilinear_chunks": False,
        "sharding_coalesce_max_gap_bytes": 2**20,
        "sharding_coalesce_max_bytes": 2**24,
        "allow_unsafe_pickle_decode": False,
    },
    "async": {"concurrency": 10, "timeout": None},
    "threading": {"max_workers": None},
    "json_indent": 2,
    "codec_pipeline": {
        "path": "zarr.core.codec_pipeline.BatchedCodecPipeline",
        "batch_size": 1,
        "max_workers": None,
    },
    "codecs": {},
    "buffer": "zarr.buffer.cpu.Buffer",
    "ndbuffer": "zarr.buffer.cpu.NDBuffer",
}
_ABSENT: Any = object()


class ZarrConfig:
    """Settings by keys with dots, as zarr-python's: `get`, `set`, `reset`, `refresh`."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}
        self.reset()

    def reset(self) -> None:
        """Restore the defaults, changed by environment variables ``ZARR_…``."""
        self.config = copy.deepcopy(DEFAULTS)
        for name, text in os.environ.items():
            if name.startswith("ZARR_"):
                self._assign(name.removeprefix("ZARR_").lower().replace("__", "."), _value(text))

    refresh = reset

    def get(self, key: str, default: Any = _ABSENT) -> Any:
        """Return a setting; a key such as ``"array.order"`` or one of the first level."""
        found: Any = self.config
        for part in key.split("."):
            if not isinstance(found, Mapping) or part not in found:
                if default is _ABSENT:
                    raise KeyError(key)
                return default
            found = found[part]
        return found

    def set(self, changes: Mapping[str, Any] | None = None, **more: Any) -> _Change:
        """Change settings; in a ``with`` block until its end. ``__`` in keywords means a dot."""
        before = copy.deepcopy(self.config)
        for key, value in (changes or {}).items():
            self._assign(key, value)
        for key, value in more.items():
            self._assign(key.replace("__", "."), value)
        return _Change(self, before)

    def _assign(self, key: str, value: Any) -> None:
        *parents, last = key.split(".")
        place = self.config
        for part in parents:
            place = place.setdefault(part, {})
        if isinstance(value, Mapping) and isinstance(place.get(last), dict):
            place[last].update(value)
        else:
            place[last] = value

    def __getitem__(self, key: str) -> Any:
        return self.get(key)

    def __contains__(self, key: str) -> bool:
        return self.get(key, None) is not None

    def pprint(self) -> None:
        """Print all settings."""
        print(self.config)

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of all settings."""
        return copy.deepcopy(self.config)


class _Change:
    def __init__(self, config: ZarrConfig, before: dict[str, Any]) -> None:
        self._config, self._before = config, before

    def __enter__(self) -> ZarrConfig:
        return self._config

    def __exit__(self, *args: object) -> None:
        self._config.config = self._before


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


_own = ZarrConfig()


def current() -> Any:
    """Return the configuration of zarr-python, or ours without it."""
    return library.module("zarr.core.config").config if library.is_installed() else _own


def default_format(given: Any = None) -> Any:
    """Return a format, by default that of the configuration."""
    return current().get("default_zarr_format", 3) if given is None else given


@dataclass(frozen=True)
class ZarrArrayConfig:
    """The settings of one handle, with the fields of zarr-python's class."""

    order: str = "C"
    write_empty_chunks: bool = False
    read_missing_chunks: bool = True
    sharding_coalesce_max_gap_bytes: int = 2**20
    sharding_coalesce_max_bytes: int = 2**24


def array_config(given: Any = None) -> Any:
    """Return the settings of a handle: those given, and the rest of the configuration."""
    if library.is_installed():
        return library.module("zarr.core.array_spec").parse_array_config(given)
    if given is not None and not isinstance(given, Mapping):
        return given
    stated = {**current().get("array"), **(given or {})}
    known = ZarrArrayConfig.__annotations__
    return ZarrArrayConfig(**{k: v for k, v in stated.items() if k in known})


def handle_config(config: Any, stored_order: str | None) -> ArrayConfig:
    """Return our settings of a handle; version 2 arrays are read in the order they are stored."""
    order: Any = stored_order or config.order
    reads = bool(getattr(config, "read_missing_chunks", True))
    return ArrayConfig(order, bool(config.write_empty_chunks), reads)


@contextmanager
def settings() -> Iterator[None]:
    """Use the number of threads of the configuration in the block."""
    threads = current().get("threading.max_workers", None)
    if threads is None:
        yield
    else:
        with ours.configure(threads=max(1, int(threads))):
            yield


# Options of functions

_UNUSED = ("synchronizer", "chunk_store", "cache_metadata", "cache_attrs", "meta_array")
_NAMES_HERE = {
    "chunk_shape": "chunks",
    "compressor": "compressors",
    "dimension_separator": "chunk_key_encoding",
    "zarr_version": "zarr_format",
}


def own_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of zarr-python, also of version 2, as those of `omnizarr.create_array`."""
    found = {name: value for name, value in options.items() if name not in _UNUSED}
    for name, here in _NAMES_HERE.items():
        value = found.pop(name, None)
        if value is not None or (name == "compressor" and name in options):
            found.setdefault(here, value)
    keep, codec = found.pop("write_empty_chunks", None), found.pop("object_codec", None)
    if keep is not None:
        found["config"] = {"write_empty_chunks": keep, **(found.get("config") or {})}
    if codec is not None:
        filters = found.get("filters")
        found["filters"] = [codec, *(filters if isinstance(filters, list | tuple) else ())]
    return found


@translating()
def one_version(zarr_format: Any, zarr_version: Any) -> Any:
    """Return the format; `zarr_version` is a deprecated name for it."""
    known = (None, *NAMES, *(int(name) for name in NAMES if name.isdigit()))
    if zarr_format not in known:
        raise InvalidMetadata(
            f"Invalid value for 'zarr_format'. Expected '2, 3, or None'. Got '{zarr_format}'."
        )
    if zarr_version is None:
        return zarr_format
    if zarr_format is not None and zarr_format != zarr_version:
        raise ValueError(
            f"zarr_format {zarr_format} does not match zarr_version {zarr_version}, please only"
            " set one"
        )
    warn("zarr_version is deprecated, use zarr_format", "ZarrDeprecationWarning")
    return zarr_version


def warn_of_unused(options: dict[str, Any]) -> None:
    """Warn of options without effect; raise for unknown ones."""
    for name, value in options.items():
        if name not in _UNUSED:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
        if value is not None:
            warn(f"{name} is not yet implemented", "ZarrRuntimeWarning")
