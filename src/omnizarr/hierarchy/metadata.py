"""What a node's documents say, as its model and as JSON."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from omnizarr._frozen import freeze
from omnizarr._json import dumps, loads
from omnizarr.errors import InvalidMetadata
from omnizarr.formats import Format
from omnizarr.formats.dimensions import ATTRIBUTE
from omnizarr.hierarchy.validate import format_of
from omnizarr.model import ArrayModel, GroupModel, Node


class Metadata:
    """A node's model, whose fields are this object's too, and the documents it is stored as.

    Nothing that is changed here changes the node: dictionaries of `attributes`, `documents` and
    `to_dict` are copies, all others cannot be changed.
    """

    def __init__(self, model: Node, format: Format, path: str) -> None:
        self._model = model
        self._format = format
        self._path = path

    @property
    def zarr_format(self) -> int | str:
        """1, 2, 3, or ``"3-draft"``."""
        return int(self._format.name) if self._format.name.isdigit() else self._format.name

    @property
    def node_type(self) -> str:
        """``"array"`` or ``"group"``."""
        return self._model.kind

    @property
    def model(self) -> Node:
        """The node as every format can say it."""
        return frozen(self._model)

    @property
    def attributes(self) -> dict[str, Any]:
        """A copy of the user attributes."""
        return copy.deepcopy(dict(self._model.attributes))

    def documents(self) -> dict[str, Any]:
        """The documents by their keys in the store, as JSON."""
        written = self._format.write(self._path, self._model)
        return {k: loads(v, k, allow_nan=True) for k, v in written.items() if v is not None}

    def to_dict(self) -> dict[str, Any]:
        """The node's main document as JSON, with the attributes."""
        found = list(self.documents().values())
        main = dict(found[0]) if found else {}
        return {**main, "attributes": self.attributes}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "dimension_names" and ATTRIBUTE in self._model.attributes:
            # As in zarr-python, which xarray relies on to tell where the names are.
            raise AttributeError(f"the names of the dimensions are in the attribute {ATTRIBUTE!r}")
        return freeze(getattr(self._model, name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Metadata):
            return bool(self._model == other)
        return (self.zarr_format, self._model) == (other.zarr_format, other._model)

    __hash__ = None  # type: ignore[assignment]  # the model holds dictionaries

    def __repr__(self) -> str:
        return f"<zarr v{self._format.name} {self._model!r}>"


def frozen(model: Node) -> Node:
    """Return a model of its own, nothing inside which can be changed."""
    parts = {"attributes": freeze(model.attributes), "extra": freeze(model.extra)}
    if isinstance(model, GroupModel):
        parts["consolidated"] = freeze(model.consolidated)
    return model.with_(**parts)


def described(path: str, given: Any) -> tuple[Node, str | None]:
    """The model of a node, and the format where the description has one."""
    if isinstance(given, Metadata):
        return given.model, str(given.zarr_format)
    if isinstance(given, (ArrayModel, GroupModel)):
        return frozen(given), None
    document = given.to_dict() if hasattr(given, "to_dict") else given
    if not isinstance(document, Mapping):
        raise InvalidMetadata(
            f"{path!r}: expected metadata, a model or a JSON document, got {type(given).__name__}"
        )
    attributes = document.get("attributes") or {}
    format, key = format_of(dict(document))
    if format is None:
        raise InvalidMetadata(f"{path!r}: this document describes no array or group")
    own = {k: v for k, v in document.items() if k not in ("attributes", "consolidated_metadata")}
    node = format.read("", {key: dumps(own)}, [])
    if node is None:
        raise InvalidMetadata(f"{path!r}: this document describes no array or group")
    return node.with_(attributes=copy.deepcopy(dict(attributes))), format.name
