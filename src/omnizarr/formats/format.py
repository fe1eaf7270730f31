"""What a format is: the only place that knows its documents, keys and rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from omnizarr._json import kind_of
from omnizarr.errors import CannotExpress, Problem
from omnizarr.model import ArrayModel, Dialect, Named, Node
from omnizarr.model.fields import Fields

Documents: TypeAlias = Mapping[str, bytes]
Kind: TypeAlias = Literal["array", "group"]


class Format(Protocol):
    """One version of Zarr."""

    name: str
    dialect: Dialect
    # Whether an array may leave its fill value undefined.
    undefined_fill: bool
    # Whether an array's dimension names are one of its attributes.
    names_in_attributes: bool
    # Whether documents have codecs by their ids in numcodecs.
    codecs_by_id: bool
    # Whether its readers know codecs that only add a checksum.
    checksums_are_read: bool
    # Whether groups exist, and whether they exist without a document of their own.
    has_groups: bool
    implicit_groups: bool
    # Why nothing may be written, or None.
    frozen: str | None

    def path(self, path: str) -> str:
        r"""The path as this format stores it: most take `\` for `/`."""

    def keys(self, path: str) -> tuple[str, ...]:
        """Every key that may hold a document of the node at `path`."""

    def read(self, path: str, documents: Documents, problems: list[Problem]) -> Node | None:
        """The node, or None where there is none; `problems` gathers warnings.

        Raises InvalidMetadata with everything that is wrong.
        """

    def write(self, path: str, node: Node) -> dict[str, bytes | None]:
        """The documents of a node; None means that the key must not exist.

        Raises CannotExpress where this format has no words for something.
        """

    def adapt(self, array: ArrayModel) -> ArrayModel:
        """The same array, same chunk bytes, in this format's own names.

        Only the chunk key encoding may differ. Raises CannotExpress.
        """

    def default_codecs(
        self, itemsize: int | None, variable: str | None, choice: str
    ) -> tuple[Named, ...]:
        """What new arrays use: for fixed items of that size, or for a variable type's codec.

        `choice` is one of those of the setting `codecs`.
        """

    def sharded(
        self, array: ArrayModel, shards: tuple[int, ...], index_location: str = "end"
    ) -> ArrayModel:
        """The array with its chunks packed into shards of that shape; raises CannotExpress.

        `index_location` is ``"start"`` or ``"end"``.
        """

    def new_type(self, named: Named) -> Named:
        """The data type of a new array for which this one is asked."""

    def key_encoding(self, separator: str | None) -> Named:
        """The chunk key encoding of new arrays."""

    def check_name(self, path: str) -> None:
        """Raise InvalidName where a path is not allowed."""

    def name_advice(self, path: str) -> str | None:
        """Why a path, though allowed, should better be another one."""

    def name_warning(self, path: str) -> str | None:
        """Why the last name of a path breaks a rule, though nodes of such names are read."""

    def root_documents(self) -> dict[str, bytes]:
        """What a hierarchy must have beside its nodes."""

    def chunk_prefix(self, path: str) -> str:
        """What the keys of an array's chunks start with."""

    def listing(self, path: str) -> str:
        """The prefix to list one level deep for the children of a group."""

    def children(self, path: str, keys: list[str], prefixes: list[str]) -> dict[str, Kind | None]:
        """Names of possible children from that listing; None: only its documents can tell."""

    def owned(self, path: str) -> tuple[list[str], list[str]]:
        """The keys and the prefixes that belong to a node and to all below it."""

    def is_metadata(self, key: str) -> bool:
        """Return True if a key can only be that of a metadata document, never of a chunk."""

    def looks_owned(self, key: str) -> bool:
        """Whether a key (relative to the hierarchy) can be part of Zarr in this format."""


def check_version(fields: Fields, version: int) -> None:
    """Record where a document is not of that version, and which it looks like."""
    stated = fields.get("zarr_format")
    if "zarr_format" not in fields.values or (type(stated) is int and stated == version):
        return
    looks = ""
    if isinstance(stated, str) and "://" in stated:
        looks = "; this looks like the draft of zarr 3"
    elif stated in (1, 2, 3) and not isinstance(stated, bool):
        key = ("meta", ".zarray or .zgroup", "zarr.json")[int(stated) - 1]
        looks = f"; this looks like zarr {stated}, whose key is {key}"
    fields.error("zarr_format", f"expected {version}, got {kind_of(stated)}{looks}")


def ascii_advice(path: str, format_name: str) -> str | None:
    """The advice of formats whose paths should be ASCII, although readers take any."""
    if path.isascii():
        return None
    return f"is not ASCII, as zarr {format_name} wants it; some readers may not find it"


def cannot(format_name: str, what: str, why: str = "") -> CannotExpress:
    """The error where a format has no words for something."""
    reason = f": {why}" if why else ""
    return CannotExpress(f"zarr {format_name} cannot express {what}{reason}")
