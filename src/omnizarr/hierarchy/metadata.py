"""What a node's documents say, as its model and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnizarr._json import dumps, loads
from omnizarr.errors import InvalidMetadata
from omnizarr.formats import Format
from omnizarr.formats.dimensions import ATTRIBUTE
from omnizarr.hierarchy.validate import format_of
from omnizarr.model import ArrayModel, GroupModel, Node


class Metadata:
    """A node's model, whose fields are this object's too, and the documents it is stored as."""

    def __init__(self, model: Node, format: Format, path: str) -> None:
        self.model = model
        self._format = format
        self._path = path

    @property
    def zarr_format(self) -> int | str:
        """1, 2, 3, or ``"3-draft"``."""
        return int(self._format.name) if self._format.name.isdigit() else self._format.name

    @property
    def node_type(self) -> str:
        """``"array"`` or ``"group"``."""
        return self.model.kind

    def documents(self) -> dict[str, Any]:
        """The documents by their keys in the store, as JSON."""
        written = self._format.write(self._path, self.model)
        return {k: loads(v, k, allow_nan=True) for k, v in written.items() if v is not None}

    def to_dict(self) -> dict[str, Any]:
        """The node's main document as JSON, with the attributes."""
        found = list(self.documents().values())
        main = dict(found[0]) if found else {}
        return {**main, "attributes": dict(self.model.attributes)}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "model":
            raise AttributeError(name)
        if name == "dimension_names" and ATTRIBUTE in self.model.attributes:
            # As in zarr-python, which xarray relies on to tell where the names are.
            raise AttributeError(f"the names of the dimensions are in the attribute {ATTRIBUTE!r}")
        return getattr(self.model, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Metadata):
            return self.model == other
        return (self.zarr_format, self.model) == (other.zarr_format, other.model)

    __hash__ = None  # type: ignore[assignment]  # the model holds dictionaries

    def __repr__(self) -> str:
        return f"<zarr v{self._format.name} {self.model!r}>"


def described(path: str, given: Any) -> tuple[Node, str | None]:
    """The model of a node, and the format where the description has one."""
    if isinstance(given, Metadata):
        return given.model, str(given.zarr_format)
    if isinstance(given, (ArrayModel, GroupModel)):
        return given, None
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
    return node.with_(attributes=dict(attributes)), format.name
