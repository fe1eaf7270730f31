"""The interface of a format: its metadata, keys and rules; equal metadata is parsed once.

All formats but version 3 store dimension names in the attribute ``_ARRAY_DIMENSIONS``. Files that
NetCDF-C writes as NCZarr have a field of their own, which is read and never written.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from omnizarr._json import kind_of
from omnizarr.concurrency.cache import Cache
from omnizarr.errors import CannotExpress, InvalidMetadata, InvalidName, Problem
from omnizarr.model import ArrayModel, Dialect, Named, Node, paths
from omnizarr.model.fields import Fields

Documents: TypeAlias = Mapping[str, bytes]
Kind: TypeAlias = Literal["array", "group"]


class Format(ABC):
    """One version of Zarr; by default, a node's metadata and chunks have one prefix."""

    name: str
    dialect: Dialect
    # True if an array may leave its fill value undefined.
    undefined_fill: bool = False
    # True if an array's dimension names are one of its attributes.
    names_in_attributes: bool = True
    # True if metadata have codecs by their ids in numcodecs.
    codecs_by_id: bool = False
    # True if its readers know codecs that only add a checksum.
    checksums_are_read: bool = True
    # True if groups exist, and if they exist without metadata of their own.
    has_groups: bool = True
    implicit_groups: bool = False
    # True if a setting decides the order of elements in chunks.
    order_by_setting: bool = False
    # The reason why nothing may be written, or None.
    frozen: str | None = None

    def path(self, path: str) -> str:
        r"""Return the path as this format stores it: most take `\` for `/`."""
        return paths.forward(path)

    @abstractmethod
    def keys(self, path: str) -> tuple[str, ...]:
        """Return every key that may hold metadata of the node at `path`."""

    @abstractmethod
    def read(self, path: str, documents: Documents, problems: list[Problem]) -> Node | None:
        """Return the node, or None; `problems` collects warnings, errors raise InvalidMetadata."""

    @abstractmethod
    def write(self, path: str, node: Node) -> dict[str, bytes | None]:
        """Return the documents, None for keys that must not exist; raise CannotExpress."""

    @abstractmethod
    def adapt(self, array: ArrayModel) -> ArrayModel:
        """Return the array with this format's names and the same chunk bytes, or raise."""

    def default_codecs(
        self, itemsize: int | None, variable: str | None, choice: str
    ) -> tuple[Named, ...]:
        """Return the codecs of new arrays, for items of a size or variable, by a setting."""
        if variable is not None:
            raise cannot(self.name, "items of variable length")
        options = {"blocksize": 0, "clevel": 5, "cname": "lz4", "shuffle": 1}
        return (Named("bytes"), Named("numcodecs.blosc", options))

    def own_codec(self, codec: Named, size: int) -> Named:
        """Return a codec of a new array, for items of that size, by the name it has here."""
        return codec

    def sharded(
        self, array: ArrayModel, shards: tuple[Any, ...], index_location: str = "end"
    ) -> ArrayModel:
        """Return the array with its chunks packed into shards of that shape; raise CannotExpress.

        An axis with shards of several lengths has a list. `index_location` is "start" or "end".
        """
        raise cannot(self.name, "shards", "versions 3-draft and 3 have them; give zarr_format=3")

    def new_type(self, named: Named) -> Named:
        """Return the data type of a new array for which this one was requested."""
        return named

    @abstractmethod
    def key_encoding(self, separator: str | None) -> Named:
        """Return the chunk key encoding of new arrays."""

    def check_name(self, path: str) -> None:
        """Raise InvalidName if a path is not allowed."""
        if "\\" in path:
            raise InvalidName(
                f"the path {path!r} contains a backslash, which zarr {self.name} takes for a"
                " slash; rename the node, or keep it in zarr 3"
            )

    def name_advice(self, path: str) -> str | None:
        """Return why an allowed path is not advisable, or None."""
        if path.isascii():
            return None
        return f"is not ASCII, as zarr {self.name} requires; some readers may not find it"

    def name_warning(self, path: str) -> str | None:
        """Return the rule that the last name of a path breaks, or None; the node is still read."""
        return None

    def root_documents(self) -> dict[str, bytes]:
        """Return the documents that a hierarchy must have besides its nodes."""
        return {}

    def chunk_prefix(self, path: str) -> str:
        """Return the prefix of the keys of an array's chunks."""
        return paths.prefix(path)

    def listing(self, path: str) -> str:
        """Return the prefix to list one level deep for the children of a group."""
        return paths.prefix(path)

    def children(self, path: str, keys: list[str], prefixes: list[str]) -> dict[str, Kind | None]:
        """Return possible children in that listing; kind None if only their metadata tell."""
        return {paths.name(p[:-1]): None for p in prefixes}

    def subtree(self, path: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes that belong to a node and to all below it."""
        return [], [paths.prefix(path)]

    @abstractmethod
    def is_metadata(self, key: str) -> bool:
        """Return True if a key can only name a metadata document, never a chunk."""

    @abstractmethod
    def is_zarr_key(self, key: str) -> bool:
        """Return True if a key, relative to the hierarchy, can belong to this format."""


def check_version(fields: Fields, version: int) -> None:
    """Record an error for metadata of another version, naming the likely one."""
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


def title(format_name: object, before: str = "v") -> str:
    """Return a format as texts name it: "zarr v3"."""
    return f"zarr {before}{format_name}"


def cannot(format_name: str, what: str, why: str = "") -> CannotExpress:
    """Return the error for something that a format cannot express."""
    reason = f": {why}" if why else ""
    return CannotExpress(f"zarr {format_name} cannot express {what}{reason}")


def check_plain(array: ArrayModel, format_name: str) -> None:
    """Raise for another grid than a regular one, and for storage transformers."""
    if array.chunk_grid.name != "regular":
        raise cannot(format_name, f"a chunk grid {array.chunk_grid.name!r}")
    if array.storage_transformers:
        raise cannot(format_name, "storage transformers")


# Dimension names in attributes

ARRAY_DIMENSIONS = "_ARRAY_DIMENSIONS"
_NCZARR = {"_nczarr_array": "dimension_references", "_NCZARR_ARRAY": "dimrefs"}


def from_attributes(
    attributes: Mapping[str, Any], rank: int, key: str, problems: list[Problem]
) -> tuple[str, ...] | None:
    """Return the dimension names in the attribute; any value but a name per axis is a problem."""
    if ARRAY_DIMENSIONS not in attributes:
        return None
    names = _names(attributes[ARRAY_DIMENSIONS], rank)
    if names is None:
        message = f"{_expected(attributes, rank)}; the names are ignored"
        problems.append(Problem(key, ARRAY_DIMENSIONS, message, "warning"))
    return names


def check_attributes(attributes: Mapping[str, Any], rank: int) -> None:
    """Raise unless the attribute, if present, names every axis."""
    if ARRAY_DIMENSIONS in attributes and _names(attributes[ARRAY_DIMENSIONS], rank) is None:
        raise InvalidMetadata(f"{ARRAY_DIMENSIONS}: {_expected(attributes, rank)}")


def from_nczarr(places: Mapping[str, Any], rank: int) -> tuple[str, ...] | None:
    """Return the names in NCZarr's own field, without the groups that their paths start with."""
    for field, member in _NCZARR.items():
        stated = places.get(field)
        names = _names(stated.get(member), rank) if isinstance(stated, dict) else None
        if names is not None:
            return tuple(name.rpartition("/")[2] for name in names)
    return None


def is_nczarr(name: str) -> bool:
    """Return True for a field or attribute that NetCDF-C reserves for itself."""
    return name.lower().startswith("_nczarr_")


def to_attributes(array: ArrayModel, format_name: str) -> dict[str, Any]:
    """Return the attributes with the array's dimension names among them."""
    attributes = dict(array.attributes)
    names = array.dimension_names
    if names is None or (names and not any(names)):
        return attributes
    if None in names:
        raise cannot(format_name, f"names for only some dimensions {names}")
    return {**attributes, ARRAY_DIMENSIONS: list(names)}


def without_duplicate_names(array: ArrayModel) -> dict[str, Any]:
    """Return the attributes without names that the field `dimension_names` already has."""
    attributes = dict(array.attributes)
    if array.dimension_names is not None and attributes.get(ARRAY_DIMENSIONS) == list(
        array.dimension_names
    ):
        del attributes[ARRAY_DIMENSIONS]
    return attributes


def _names(stated: Any, rank: int) -> tuple[str, ...] | None:
    good = (
        isinstance(stated, list)
        and len(stated) == rank
        and all(isinstance(name, str) for name in stated)
    )
    return tuple(stated) if good else None


def _expected(attributes: Mapping[str, Any], rank: int) -> str:
    return f"expected a list of {rank} strings, one per axis, got {attributes[ARRAY_DIMENSIONS]!r}"


# Chunks of length 0, which older software wrote for axes that were empty then


def chunk_lengths(stated: Any, shape: Any, units: Any = ()) -> Any:
    """Return a chunk shape with each 0 along an axis with elements replaced by the least length.

    No chunk can be stored under a length of 0. `units` are the lengths of the chunks inside shards.
    """
    known = isinstance(stated, list) and isinstance(shape, (list, tuple))
    if not known or len(shape) != len(stated) or 0 not in stated:
        return stated
    least = units if isinstance(units, list) and len(units) == len(stated) else [1] * len(stated)
    axes = zip(stated, shape, least, strict=True)
    return [unit if type(n) is int and n == 0 and of else n for n, of, unit in axes]


def warn_of_lengths(fields: Fields, field: str, stated: Any, used: Any) -> bool:
    """Record chunk lengths that are not read as they are stated; return True if there are any."""
    if used != stated:
        fields.warn(field, f"expected positive integers, got {stated}; read as {used}")
    return bool(used != stated)


def with_lengths(array: ArrayModel, key: str, problems: list[Problem]) -> ArrayModel:
    """Return the array with the least length for chunks of length 0."""
    fields, grid = Fields(key, {}, problems), array.chunk_grid
    stated = grid.configuration.get("chunk_shape")
    shards = (c for c in array.codecs if c.name == "sharding_indexed")
    inner = next((shard.configuration.get("chunk_shape") for shard in shards), None)
    used = chunk_lengths(stated, array.shape, inner)
    place = "chunk_grid.configuration.chunk_shape"
    if grid.name != "regular" or not warn_of_lengths(fields, place, stated, used):
        return array
    return array.with_(chunk_grid=grid.replace(chunk_shape=used))


LARGEST = 2**14  # bytes of a document
_models: Cache[Hashable, Node] = Cache(512)
# Texts of arrays before and after their shape, by their rank and the ids of all other fields, which
# the model keeps alive.
_texts: Cache[tuple[int, ...], tuple[ArrayModel, bytes, bytes]] = Cache(512)
_written: Cache[int, tuple[ArrayModel, bytes]] = Cache(512)  # of the same models, by their ids
_beside_shape = attrgetter(*(f.name for f in fields(ArrayModel) if f.name != "shape"))


def parse_once(
    key: tuple[Hashable, ...], problems: list[Problem], parse: Callable[[], Node]
) -> Node:
    """Return the node that `parse` makes of the documents in `key`; cache it if it is valid."""
    found = _models.get(key)
    if found is not None:
        return found
    before = len(problems)
    node = parse()
    size = sum(len(part) for part in key if isinstance(part, bytes))
    if size <= LARGEST and len(problems) == before:
        _models.put(key, node)
    return node


def write_once(node: Node, write: Callable[[Node], bytes]) -> bytes:
    """Return what `write` makes of a model; an array's text may be cached from another shape.

    `write` gives JSON indented by two spaces, in which nothing else depends on the shape's numbers.
    """
    if not isinstance(node, ArrayModel):
        return write(node)
    same = _written.get(id(node))
    if same is not None:
        return same[1]
    rank = len(node.shape)
    key = rank, *map(id, _beside_shape(node))
    found = _texts.get(key)
    if found is None:
        text = write(node.with_(shape=(0,) * rank))
        before, _, after = text.partition(_shape_text((0,) * rank))
        found = node, before, after
        if len(text) <= LARGEST:
            _texts.put(key, found)
    text = found[1] + _shape_text(node.shape) + found[2]
    if len(text) <= LARGEST:
        _written.put(id(node), (node, text))
    return text


def _shape_text(shape: Sequence[int]) -> bytes:
    """Return the lines that state the shape; in nested objects they are indented differently."""
    lengths = ",\n    ".join(map(str, shape))
    return f'\n  "shape": [\n    {lengths}\n  ]'.encode() if shape else b'\n  "shape": []'


_SPECIFICATIONS = {
    "zarr.json": "Zarr 3",
    **dict.fromkeys((".zarray", ".zgroup", ".zattrs"), "Zarr 2"),
    ".zmetadata": "zarr-python",
    **dict.fromkeys(("meta", "attrs"), "Zarr 1"),
}


def section_of(problem: Problem) -> str:
    """Return the specification and the field whose rule a document breaks: "Zarr 3, codecs"."""
    if not problem.field and problem.message.startswith("the path "):
        return "Zarr 3, node names"
    draft = problem.key.startswith("meta/")
    found = _SPECIFICATIONS.get(problem.key.rpartition("/")[2], "Zarr")
    first = re.split(r"[.\[]", problem.field)[0]
    return f"{'Zarr 3 draft' if draft else found}, {first or 'metadata documents'}"
