"""Metadata of a node as zarr-python shows them.

With zarr-python they are instances of its classes (`ArrayV2Metadata`, `ArrayV3Metadata`,
`GroupMetadata`), made from the node's documents. Without it, and for what zarr-python cannot
describe (versions 1 and 3-draft, codecs and data types that it does not know), they are
`PlainMetadata` with the same fields.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from omnizarr._json import dumps
from omnizarr.engine import BoundArray
from omnizarr.errors import InvalidMetadata
from omnizarr.formats import Format
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.node import NodeMetadata
from omnizarr.interop.zarr import config, library
from omnizarr.model import ArrayModel, GroupModel, Node

_V2, _V3 = "zarr.core.metadata.v2", "zarr.core.metadata.v3"


def array_metadata(location: Location, model: ArrayModel, bound: BoundArray) -> Any:
    """Return the metadata of an array."""
    document = _document(location.format, location.path, model)
    found = _parsed(document)
    return PlainMetadata(document, bound) if found is None else found


def group_metadata(location: Location, model: GroupModel) -> Any:
    """Return the metadata of a group, with the consolidated metadata that it was opened with."""
    document = _document(location.format, location.path, model)
    document.pop("consolidated_metadata", None)
    nodes = consolidated_nodes(location)
    if nodes is not None:
        below = {
            path: _document(location.format, "", node)
            for path, node in sorted(nodes.items(), key=lambda item: item[0].count("/"))
        }
        for path, entry in below.items():
            entry.pop("consolidated_metadata", None)
            if isinstance(nodes[path], GroupModel):  # which has all its nodes in those of the root
                entry["consolidated_metadata"] = _inline({})
        document["consolidated_metadata"] = _inline(below)
    found = _parsed(document)
    return PlainMetadata(document, None) if found is None else found


def _inline(nodes: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "inline", "must_understand": False, "metadata": nodes}


def consolidated_nodes(location: Location) -> dict[str, Node] | None:
    """Return the nodes below a group by relative path if it was opened with consolidated ones."""
    found = location.consolidated
    return found.all(location.path) if found is not None and found.requested else None


def _document(format: Format, path: str, node: Node) -> dict[str, Any]:
    """Return the document of a node with its attributes, as JSON."""
    return NodeMetadata(node, format, path).to_dict()


def _parsed(document: dict[str, Any]) -> Any:
    """Return the metadata as an instance of zarr-python's class, or None if it has none."""
    if not library.is_installed() or document.get("zarr_format") not in (2, 3):
        return None
    try:
        with warnings.catch_warnings(), _allowed_grids(document):
            warnings.simplefilter("ignore")  # it was created and opened already
            return parse(document)
    except (ValueError, TypeError, KeyError, LookupError):
        return None  # a codec or data type that is unknown to zarr-python


@contextmanager
def _allowed_grids(document: Mapping[str, Any]) -> Iterator[None]:
    """Let zarr-python describe a rectilinear grid, which it refuses by default, in the block."""
    key = "array.rectilinear_chunks"
    if config.current().get(key, True) or not _is_rectilinear(document):
        yield
        return
    with config.current().set({key: True}):
        yield


def _is_rectilinear(document: Mapping[str, Any]) -> bool:
    below = (document.get("consolidated_metadata") or {}).get("metadata", {})
    grid = document.get("chunk_grid")
    own = isinstance(grid, Mapping) and grid.get("name") == "rectilinear"
    return own or any(map(_is_rectilinear, below.values()))


def parse(document: Mapping[str, Any]) -> Any:
    """Return zarr-python's metadata for a document; raise what it raises."""
    if document.get("zarr_format") not in (2, 3):
        raise InvalidMetadata(
            f"Invalid zarr_format: {document.get('zarr_format')}. Expected 2 or 3"
        )
    if document["zarr_format"] == 2:
        if "shape" in document:
            return library.original(_V2, "ArrayV2Metadata").from_dict(dict(document))
    elif document.get("node_type") == "array":
        return library.original(_V3, "ArrayV3Metadata").from_dict(dict(document))
    return library.original("zarr.core.group", "GroupMetadata").from_dict(dict(document))


@dataclass(frozen=True)
class ZarrFields:
    """Functions that return what arrays show, from zarr-python's metadata of one version."""

    filters: Callable[[Any], tuple[Any, ...]]
    serializer: Callable[[Any], Any]
    compressors: Callable[[Any], tuple[Any, ...]]
    data_type: Callable[[Any], Any]
    has_order: bool = False  # the order of elements is a field, which is that of arrays, too


def _codecs(metadata: Any, kind: str) -> tuple[Any, ...]:
    """Return the codecs of one kind; for shards, those of the chunks inside."""
    codecs = metadata.codecs
    if len(codecs) == 1 and isinstance(codecs[0], library.module("zarr.codecs").ShardingCodec):
        codecs = codecs[0].codecs
    wanted = getattr(library.module("zarr.abc.codec"), kind)
    return tuple(codec for codec in codecs if isinstance(codec, wanted))


FIELDS: dict[Any, ZarrFields] = {
    2: ZarrFields(
        lambda metadata: tuple(metadata.filters or ()),
        lambda metadata: None,
        lambda metadata: () if metadata.compressor is None else (metadata.compressor,),
        lambda metadata: metadata.dtype,
        has_order=True,
    ),
    3: ZarrFields(
        lambda metadata: _codecs(metadata, "ArrayArrayCodec"),
        lambda metadata: _codecs(metadata, "ArrayBytesCodec")[0],
        lambda metadata: _codecs(metadata, "BytesBytesCodec"),
        lambda metadata: metadata.data_type,
    ),
}


class PlainMetadata:
    """Metadata with the fields of zarr-python's classes, for use without it."""

    def __init__(self, document: Mapping[str, Any], bound: BoundArray | None) -> None:
        self._document = dict(document)
        self._bound = bound

    def to_dict(self) -> dict[str, Any]:
        """Return the document as JSON."""
        return dict(self._document)

    def to_buffer_dict(self, prototype: Any = None) -> dict[str, bytes]:
        """Return the stored documents by key, as bytes."""
        document = dict(self._document)
        if self.zarr_format == 3:
            return {"zarr.json": dumps(document)}
        attributes = document.pop("attributes", {})
        key = ".zarray" if "shape" in document else ".zgroup"
        return {key: dumps(document), ".zattrs": dumps(attributes)}

    @property
    def zarr_format(self) -> Any:
        """The version of the format."""
        return self._document.get("zarr_format", 3)

    @property
    def node_type(self) -> str:
        """``"array"`` or ``"group"``."""
        return "group" if self._bound is None else "array"

    @property
    def attributes(self) -> dict[str, Any]:
        """The user attributes."""
        return dict(self._document.get("attributes") or {})

    @functools.cached_property
    def consolidated_metadata(self) -> Any:
        """The metadata of all nodes below a group, or None."""
        stated = self._document.get("consolidated_metadata")
        if self._bound is not None or stated is None:
            return None
        flat = {path: PlainMetadata(entry, None) for path, entry in stated["metadata"].items()}
        direct = {path: entry for path, entry in flat.items() if "/" not in path}
        return SimpleNamespace(metadata=direct, flattened_metadata=flat, **{"kind": "inline"})

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        return self._array.model.shape

    @property
    def fill_value(self) -> Any:
        """The value of elements without a chunk; None if it is not defined."""
        return self._array.fill[()] if self._array.fill_defined else None

    @property
    def dtype(self) -> Any:
        """The NumPy type."""
        return self._array.dtype

    data_type = dtype

    @property
    def chunks(self) -> Any:
        """The shape of a stored chunk."""
        return self._array.grid.regular

    @property
    def chunk_grid(self) -> Any:
        """An object with the `chunk_shape`."""
        return SimpleNamespace(chunk_shape=self._array.grid.regular, name="regular")

    @property
    def codecs(self) -> tuple[Any, ...]:
        """The codecs by name."""
        return self._array.model.codecs

    @property
    def chunk_key_encoding(self) -> Any:
        """The encoding of chunk keys by name."""
        return self._array.model.chunk_key_encoding

    @property
    def dimension_names(self) -> Any:
        """The names of the axes, or None; version 2 has none."""
        if self.zarr_format == 2:
            raise AttributeError("version 2 has the names of dimensions in the attributes")
        return self._array.model.dimension_names

    @property
    def storage_transformers(self) -> tuple[Any, ...]:
        """The storage transformers by name."""
        return self._array.model.storage_transformers

    @property
    def dimension_separator(self) -> str:
        """The separator in chunk keys (version 2)."""
        return str(self._document.get("dimension_separator", "."))

    @property
    def compressor(self) -> Any:
        """The compressor (version 2)."""
        return self._document.get("compressor")

    @property
    def filters(self) -> Any:
        """The filters (version 2)."""
        found = self._document.get("filters")
        return tuple(found) if found else None

    @property
    def order(self) -> str:
        """The order of elements in a chunk (version 2)."""
        return str(self._document.get("order", "C"))

    @property
    def _array(self) -> BoundArray:
        if self._bound is None:
            raise AttributeError("the metadata of a group have no fields of arrays")
        return self._bound

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainMetadata) and other._document == self._document

    __hash__ = None  # type: ignore[assignment]  # it holds dictionaries

    def __repr__(self) -> str:
        return f"PlainMetadata({self._document!r})"
