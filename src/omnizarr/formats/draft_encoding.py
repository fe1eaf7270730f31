"""How the draft's documents of arrays and groups become bytes: JSON, or a registered encoding.

``{"type": "json", "metadata_key_suffix": ".json"}`` in the entry point, or an extension with its
URI, a type and the suffix of its keys. The entry point itself is always JSON.
"""

from __future__ import annotations

from typing import Any, Protocol

from omnizarr import registry
from omnizarr._json import dumps, kind_of, load_object
from omnizarr.errors import InvalidMetadata, Problem
from omnizarr.formats.draft_extensions import extension_uri
from omnizarr.model.fields import Fields


class MetadataEncoding(Protocol):
    """An encoding other than JSON; registered as ``metadata_encoding`` under its URI."""

    def decode(self, data: bytes) -> Any: ...
    def encode(self, document: dict[str, Any]) -> bytes: ...


def read_encoding(fields: Fields) -> tuple[object, MetadataEncoding | None]:
    """The suffix of metadata keys, and the encoding where it is not JSON."""
    value = fields.get("metadata_encoding")
    if "metadata_encoding" not in fields.values:
        return ".json", None
    if not isinstance(value, dict):
        fields.error("metadata_encoding", f"expected an object, got {kind_of(value)}")
        return ".json", None
    encoding: MetadataEncoding | None = None
    if "extension" in value:
        uri = extension_uri(fields, "metadata_encoding", value)
        encoding = registry.find("metadata_encoding", uri)
        if encoding is None:
            fields.error("metadata_encoding.extension", f"unknown encoding {uri!r}")
    elif value.get("type") != "json":
        message = f"expected 'json', got {kind_of(value.get('type'))}"
        fields.error("metadata_encoding.type", message)
    for name in sorted(value.keys() - {"extension", "type", "metadata_key_suffix"}):
        if "extension" not in value:  # which may have members of its own
            fields.warn(f"metadata_encoding.{name}", "unknown member; ignored")
    if "metadata_key_suffix" not in value:
        fields.error("metadata_encoding.metadata_key_suffix", "required, but missing")
    return value.get("metadata_key_suffix", ".json"), encoding


def load(encoding: MetadataEncoding | None, data: bytes, key: str) -> dict[str, Any]:
    """A document; `key` names it in errors."""
    if encoding is None:
        return load_object(data, key)
    try:
        document = encoding.decode(data)
    except Exception as e:  # encodings of any package may raise anything
        problem = Problem(key, "", str(e) or type(e).__name__)
        raise InvalidMetadata(f"{key!r} cannot be decoded: {problem.message}", (problem,)) from e
    if not isinstance(document, dict):
        message = f"expected an object, got {kind_of(document)}"
        raise InvalidMetadata(f"{key!r}: {message}", (Problem(key, "", message),))
    return document


def dump(encoding: MetadataEncoding | None, document: dict[str, Any]) -> bytes:
    """A document as it is stored."""
    return dumps(document, indent=4) if encoding is None else encoding.encode(document)
