"""What a node is, whichever format it came from.

Names live in one name space, that of the final version 3 and its registered extensions
(`int32`, `numpy.datetime64`, `gzip`, `numcodecs.zlib`, …). Three things that only older formats
can say have a place too, and the writer of a format that lacks them refuses or translates:

- a data type may carry ``endian: "big"``: the byte order of its default representation, and
  of the NumPy type users see (version 1, version 2, early drafts);
- a field of a ``struct`` may carry ``shape`` (NumPy's sub-arrays);
- the data type ``object`` holds Python objects through an object codec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from omnizarr._frozen import freeze
from omnizarr.model.named import Named

# In which words a fill value is written; the data types know the words.
Dialect: TypeAlias = Literal["v1", "v2", "v3-draft", "v3"]


@dataclass(frozen=True, slots=True)
class FillValue:
    """A fill value as its document states it; None in `json` means "undefined" (v1, v2)."""

    json: Any
    dialect: Dialect

    def __post_init__(self) -> None:
        object.__setattr__(self, "json", freeze(self.json))  # equal arrays share it


@dataclass(frozen=True, slots=True)
class ArrayModel:
    """Everything a document says about an array."""

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
        """A copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class GroupModel:
    """Everything a document says about a group."""

    attributes: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    # Documents of descendants by relative path, as the group's own document repeats them.
    consolidated: Mapping[str, Any] | None = None
    # A group that exists only because something lies below it (the draft).
    implicit: bool = False

    kind = "group"

    def with_(self, **changes: Any) -> GroupModel:
        """A copy with some fields changed."""
        return replace(self, **changes)


Node: TypeAlias = ArrayModel | GroupModel
