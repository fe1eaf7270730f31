"""Nodes and the extensions they name: frozen, independent of the format.

Names are those of the final version 3 and its registered extensions (`int32`, `numpy.datetime64`,
`gzip`, `numcodecs.zlib`, …). Three things that only older formats can express are represented too;
the writer of a format that lacks them refuses or translates them:

- a data type may carry ``endian: "big"``: the byte order of its default representation, and
  of the NumPy type users see (version 1, version 2, early drafts);
- a field of a ``struct`` may carry ``shape`` (NumPy's sub-arrays);
- the data type ``object`` holds Python objects through an object codec.

Version 2 lists filters and a compressor without their kinds; the sets of numcodecs ids at the end
say which of them encode arrays as arrays, and which as bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal, TypeAlias

from omnizarr import registry
from omnizarr._json import NOTHING, freeze
from omnizarr.errors import InvalidMetadata, Problem


@dataclass(frozen=True, slots=True)
class Named:
    """A codec, data type, grid, key encoding or transformer, not yet bound to code.

    `stated` and `where` are for errors: the name in the metadata, if another, and the position.
    """

    name: str
    configuration: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    must_understand: bool = True
    stated: str = field(default="", compare=False)
    where: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        # Equal nodes share names, so a configuration must never change.
        object.__setattr__(self, "configuration", freeze(self.configuration))

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in self.configuration.items())
        return f"{self.name}({inside})" if inside else self.name

    def replace(self, **configuration: Any) -> Named:
        """Return the same name with some members of the configuration changed."""
        return replace(self, configuration={**self.configuration, **configuration})

    def without(self, *members: str) -> Named:
        """Return the same name without some members of the configuration."""
        kept = {k: v for k, v in self.configuration.items() if k not in members}
        return replace(self, configuration=kept)


def check_members(
    named: Named, kind: str, *, required: Iterable[str] = (), optional: Iterable[str] = ()
) -> None:
    """Raise for a missing or unknown member, which might change the meaning of the data."""
    required, optional = set(required), set(optional)
    given = named.configuration.keys()
    problems = [
        Problem("", f"configuration.{member}", f"{kind} {named.name!r} needs it")
        for member in sorted(required - given)
    ]
    problems += [
        Problem("", f"configuration.{member}", f"not a member of {kind} {named.name!r}")
        for member in sorted(given - required - optional)
    ]
    if problems:
        raise InvalidMetadata.of(problems, f"{kind} {named.name!r}")


def invalid(kind: str, name: str, member: str, message: str) -> InvalidMetadata:
    """Return the error for one wrong member of a configuration."""
    return InvalidMetadata.of([Problem("", f"configuration.{member}", message)], f"{kind} {name!r}")


def with_defaults(kind: registry.Kind, named: Named) -> Named:
    """Return the extension with the defaults of its class, which later versions may change.

    Only for classes of other packages: the defaults of this package's, and of classes with a `bind`
    of their own, may be omitted in metadata.
    """
    target = registry.find(kind, named.name)
    if not isinstance(target, type) or not dataclasses.is_dataclass(target):
        return named
    others = [c for c in target.__mro__ if not c.__module__.startswith("omnizarr.")]
    if target not in others or any("bind" in vars(c) for c in others):
        return named
    found: dict[str, Any] = {}
    for f in dataclasses.fields(target):
        value: Any = f.default
        if f.default_factory is not dataclasses.MISSING:
            value = f.default_factory()
        if f.init and value is not None and value is not dataclasses.MISSING:
            value = value.value if isinstance(value, Enum) else value
            found[f.name] = list(value) if isinstance(value, tuple) else value
    return named.replace(**{**found, **named.configuration})


# The spelling of a fill value; the data types know them.
Dialect: TypeAlias = Literal["v1", "v2", "v3-draft", "v3"]


@dataclass(frozen=True, slots=True)
class FillValue:
    """A fill value as its metadata state it; None in `json` means "undefined" (v1, v2).

    In version 3 it is a value: that of optional elements which are missing.
    """

    json: Any
    dialect: Dialect

    def __post_init__(self) -> None:
        object.__setattr__(self, "json", freeze(self.json))  # equal arrays share it


@dataclass(frozen=True, slots=True)
class ArrayModel:
    """Everything that metadata say about an array."""

    shape: tuple[int, ...]
    data_type: Named
    chunk_grid: Named
    chunk_key_encoding: Named
    fill_value: FillValue
    codecs: tuple[Named, ...]
    storage_transformers: tuple[Named, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dimension_names: tuple[str | None, ...] | None = None
    # Fields that may be ignored but must survive a rewrite.
    extra: Mapping[str, Any] = field(default_factory=dict)

    kind = "array"

    def with_(self, **changes: Any) -> ArrayModel:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class GroupModel:
    """Everything that metadata say about a group."""

    attributes: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    # Metadata of descendants by relative path, if the group's own metadata contain them.
    consolidated: Mapping[str, Any] | None = None
    # True if the group exists only because of a node below it (the draft).
    implicit: bool = False

    kind = "group"

    def with_(self, **changes: Any) -> GroupModel:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


Node: TypeAlias = ArrayModel | GroupModel


# Codecs of numcodecs; their names in the model start with this: "numcodecs.zlib".
PREFIX = "numcodecs."
# Codecs of the package imagecodecs; their ids in version 2 and names in version 3 start with this.
IMAGECODECS = "imagecodecs_"


def _of_imagecodecs(names: str) -> frozenset[str]:
    return frozenset(IMAGECODECS + name for name in names.split())


# Formats that say what shape and type their arrays have.
IMAGE_FORMATS = _of_imagecodecs(
    "apng avif bmp ccittfax3 ccittfax4 ccittrle dds gif heif htj2k jpeg jpeg2k jpegls jpegxl jpegxr"
    " jpegxs lerc ljpeg png qoi sperr spng tiff ultrahdr webp zfp"
)
# Codecs of arrays that have to be told.
IMAGE_ARRAYS = _of_imagecodecs(
    "bfloat16 dicomrle eer float24 jetraw meshopt packints pcodec pixarlog rcomp rgbe sz3"
)
# Filters, which make bytes of arrays, and of bytes, in version 2.
IMAGE_PREDICTORS = _of_imagecodecs("byteshuffle delta floatpred xor")
IMAGE_SHUFFLES = _of_imagecodecs("bitorder bitshuffle")
# The filters of version 3, where they all turn arrays into arrays.
IMAGE_FILTERS = IMAGE_PREDICTORS | IMAGE_SHUFFLES | {f"{IMAGECODECS}quantize"}
IMAGE_COMPRESSORS = _of_imagecodecs(
    "aec blosc blosc2 brotli bz2 checksum deflate lz4 lz4f lz4h5 lzf lzfse lzham lzma lzo lzw"
    " packbits pglz snappy szip zlib zlibng zopfli zstd"
)

ARRAY_TO_ARRAY = frozenset(
    {
        *("delta", "fixedscaleoffset", "quantize", "bitround", "astype", "packbits", "categorize"),
        f"{IMAGECODECS}quantize",
    }
)
# Compressors of whole arrays.
ARRAY_COMPRESSORS = IMAGE_FORMATS | IMAGE_ARRAYS | {"pcodec", "zfpy"}
OBJECT_CODECS = frozenset(
    {
        *("vlen-utf8", "vlen-bytes", "vlen-array"),
        *("json", "json2", "msgpack", "msgpack2", "pickle"),
    }
)
ARRAY_TO_BYTES = OBJECT_CODECS | ARRAY_COMPRESSORS | IMAGE_PREDICTORS
CHECKSUMS = frozenset({"crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"})
# Codecs on bytes that version 2 metadata list among the filters.
BYTES_FILTERS = CHECKSUMS | IMAGE_SHUFFLES | {"shuffle", "base64"}
