"""The 2022 draft of version 3: ``zarr.json`` at the root, ``meta/…`` and ``data/…`` keys.

The specification changed several times under the same date. Hierarchies are written in its last
state, of December 2022; those of earlier states, with all keys below ``meta/root`` and
``data/root``, are read but never written.

The entry point states the encoding of all other metadata:
``{"type": "json", "metadata_key_suffix": ".json"}``, or an extension with its URI, a type and the
suffix of its keys. The entry point itself is always JSON.
"""

from __future__ import annotations

import binascii
import re
from typing import Any, Protocol

from omnizarr import registry
from omnizarr._json import dumps, kind_of, load_object
from omnizarr.errors import InvalidMetadata, InvalidName, Problem
from omnizarr.formats import draft_extensions, format, numpy_types
from omnizarr.formats.draft_extensions import array_extensions, extension_uri, is_core, write_codecs
from omnizarr.formats.format import Documents, Format, Kind, cannot
from omnizarr.formats.numpy_types import byte_orders, check_pairs, itemsize, only_old, zero_json
from omnizarr.model import ArrayModel, Dialect, FillValue, GroupModel, Named, Node, paths
from omnizarr.model.fields import Fields

ENTRY = "zarr.json"
VERSION = "https://purl.org/zarr/spec/core/3.0"
_VERSION = re.compile(r"https://purl\.org/zarr/spec/(protocol/)?core/(\d+)\.(\d+)")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_CHUNK = re.compile(r"c|c?\d+(\.\d+)*")  # the end of a key
REQUIRED = (
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_memory_layout",
    "fill_value",
    "extensions",
    "attributes",
)
OPTIONAL = ("codecs", "storage_transformers")
EARLIER = ("compressor", "dimension_separator")


class V3Draft(Format):
    """The draft; one object for each hierarchy, since the entry point determines the keys."""

    name = "3-draft"
    dialect: Dialect = "v3-draft"
    implicit_groups = True

    def __init__(
        self,
        *,
        root: str = "",
        suffix: str = ".json",
        minor: int = 0,
        encoding: MetadataEncoding | None = None,
    ) -> None:
        self.root = root  # "root" in the earlier states
        self.suffix = suffix
        self.minor = minor
        self.encoding = encoding  # None is JSON
        if root:
            self.frozen = (
                "this hierarchy is in a state of the draft from before 24 November 2022, which is"
                " read but never written; convert it first: omnizarr convert SRC DST --to 3"
            )

    @classmethod
    def open(cls, data: bytes, problems: list[Problem]) -> V3Draft:
        """Return the format as the entry point of one hierarchy determines it."""
        doc = load_object(data, ENTRY)
        fields = Fields(ENTRY, doc, problems)
        match = _VERSION.fullmatch(str(doc.get("zarr_format")))
        minor, earlier = 0, False
        encoding: MetadataEncoding | None = None
        if match is None or match[2] != "3":
            fields.error("zarr_format", f"expected {VERSION!r}, got {kind_of(doc['zarr_format'])}")
        else:
            minor = int(match[3])
            # The key encoding lost its /root on the day the encoding became an object.
            earlier = not isinstance(doc.get("metadata_encoding"), dict)
            earlier = earlier and (bool(match[1]) or "metadata_key_suffix" in doc)
        if earlier:
            suffix = doc.get("metadata_key_suffix", ".json")
            message = "an earlier state of the draft (before 24 November 2022); read only"
            fields.warn("metadata_encoding", message)
        else:
            fields.require("metadata_encoding", "extensions")
            suffix, encoding = read_encoding(fields)
        array_extensions(fields)
        known = {"zarr_format", "metadata_encoding", "extensions"}
        _check_known(fields, known | ({"metadata_key_suffix"} if earlier else set()), minor)
        fields.expect("metadata_key_suffix", isinstance(suffix, str), "a string", suffix)
        fields.done("not a valid entry point of the zarr 3 draft")
        root = "root" if earlier else ""
        return cls(root=root, suffix=str(suffix), minor=minor, encoding=encoding)

    # Keys

    def _node(self, path: str) -> str:
        return paths.join(self.root, paths.forward(path))

    def _document(self, path: str, kind: str) -> str:
        node = self._node(path)
        return f"meta/{node}.{kind}{self.suffix}" if node else f"meta/{kind}{self.suffix}"

    def keys(self, path: str) -> tuple[str, ...]:
        return (self._document(path, "array"), self._document(path, "group"))

    def chunk_prefix(self, path: str) -> str:
        return f"data/{paths.prefix(self._node(path))}"

    def listing(self, path: str) -> str:
        return f"meta/{paths.prefix(self._node(path))}"

    def children(self, path: str, keys: list[str], prefixes: list[str]) -> dict[str, Kind | None]:
        start = len(self.listing(path))
        found: dict[str, Kind | None] = {p[start:-1]: "group" for p in prefixes}
        kinds: tuple[Kind, Kind] = ("group", "array")
        for kind in kinds:  # an array hides a group of the same name
            ending = f".{kind}{self.suffix}"
            for key in keys:
                name = key[start:]
                if name.endswith(ending) and len(name) > len(ending):
                    found[name.removesuffix(ending)] = kind
        return found

    def subtree(self, path: str) -> tuple[list[str], list[str]]:
        return list(self.keys(path)), [self.listing(path), self.chunk_prefix(path)]

    def is_metadata(self, key: str) -> bool:
        return key == ENTRY or key.startswith("meta/")

    def is_zarr_key(self, key: str) -> bool:
        endings = tuple(f"{kind}{self.suffix}" for kind in ("array", "group"))
        document = key.startswith("meta/") and key.endswith(endings)
        chunk = key.startswith("data/") and _CHUNK.fullmatch(paths.name(key)) is not None
        return key == ENTRY or document or chunk

    def name_warning(self, path: str) -> str | None:
        name = paths.name(path)
        if not path or (_NAME.fullmatch(name) and name.strip(".")):
            return None
        return (
            f"has the name {name!r}, but the draft allows only letters, digits, '-', '_' and '.',"
            " and not periods alone"
        )

    def root_documents(self) -> dict[str, bytes]:
        entry = {
            "zarr_format": VERSION,
            "metadata_encoding": {"type": "json", "metadata_key_suffix": ".json"},
            "extensions": [],
        }
        return {ENTRY: dumps(entry, indent=4)}

    def check_name(self, path: str) -> None:
        for name in path.split("/") if path else ():
            problem = self.name_warning(name)
            if problem is not None:
                raise InvalidName(f"the path {paths.show(path)!r} {problem}")

    # Metadata

    def read(self, path: str, documents: Documents, problems: list[Problem]) -> Node | None:
        array, group = self.keys(path)
        if array in documents:
            if group in documents:
                message = "an array and a group have the same path; the array is used"
                problems.append(Problem(group, "", message, "warning"))
            doc = load(self.encoding, documents[array], array)
            return self._read_array(Fields(array, doc, problems))
        if group not in documents:
            return None
        fields = Fields(group, load(self.encoding, documents[group], group), problems)
        fields.require("attributes")
        attributes = fields.attributes()
        known = {"attributes"} | ({"extensions"} if self.root else set())
        _check_known(fields, known, self.minor)
        fields.done("not a valid group of the zarr 3 draft")
        return GroupModel(attributes)

    def _read_array(self, fields: Fields) -> ArrayModel:
        fields.require(*REQUIRED)
        shape = fields.integers("shape")
        data_type, extra = draft_extensions.read_type(fields)
        grid, encoding = _grid(fields, shape)
        codecs = draft_extensions.read_codecs(fields, len(shape))
        if isinstance(fields.get("chunk_memory_layout"), dict):
            extra["chunk_memory_layout"] = fields.get("chunk_memory_layout")
        transformers = draft_extensions.read_transformers(fields)
        attributes = fields.attributes()
        extensions = array_extensions(fields)
        if extensions:
            extra["extensions"] = extensions
        known = {*REQUIRED, *OPTIONAL, *(EARLIER if self.root else ())}
        _check_known(fields, known, self.minor)
        fill = fields.get("fill_value")
        if fill is None and "fill_value" in fields.values:
            fields.warn("fill_value", "null is not permitted; read as the type's zero")
            fill = _zero(data_type)
        names = format.from_attributes(attributes, len(shape), fields.key, fields.problems)
        fields.done("not a valid array of the zarr 3 draft")
        return ArrayModel(
            shape=shape,
            data_type=data_type,
            chunk_grid=grid,
            chunk_key_encoding=encoding,
            fill_value=FillValue(fill, self.dialect),
            codecs=codecs,
            storage_transformers=transformers,
            attributes=attributes,
            dimension_names=names,
            extra=extra,
        )

    def write(self, path: str, node: Node) -> dict[str, bytes | None]:
        array_key, group_key = self.keys(path)
        if isinstance(node, GroupModel):
            doc: dict[str, Any] = {"attributes": dict(node.attributes)}
        else:
            doc = self._array_document(self.adapt(node))
        text = dumps(doc, indent=4) if self.encoding is None else self.encoding.encode(doc)
        is_array = isinstance(node, ArrayModel)
        return {array_key: text if is_array else None, group_key: None if is_array else text}

    def _array_document(self, array: ArrayModel) -> dict[str, Any]:
        order, codecs = write_codecs(array, self.name)
        doc: dict[str, Any] = {
            "shape": list(array.shape),
            "data_type": draft_extensions.write_type(array, self.name),
            "chunk_grid": {
                "type": "regular",
                "chunk_shape": list(array.chunk_grid.configuration["chunk_shape"]),
                "separator": array.chunk_key_encoding.configuration.get("separator", "/"),
            },
            "chunk_memory_layout": order,
            "fill_value": array.fill_value.json,
            "extensions": list(array.extra.get("extensions", ())),
            "attributes": format.to_attributes(array, self.name),
        }
        if codecs:
            doc["codecs"] = codecs
        if array.storage_transformers:
            doc["storage_transformers"] = draft_extensions.write_transformers(array)
        return doc

    def adapt(self, array: ArrayModel) -> ArrayModel:
        if array.chunk_grid.name != "regular":
            raise cannot(self.name, f"a chunk grid {array.chunk_grid.name!r}")
        if array.storage_transformers and array.fill_value.dialect != self.dialect:
            raise cannot(self.name, "storage transformers of another format")
        if "data_type" not in array.extra:
            older = only_old(array.data_type)
            if older is not None:
                raise cannot(self.name, older)
            check_pairs(array.data_type, self.name)
            if numpy_types.to_type_string(array.data_type, self.name) == "|O":
                raise cannot(self.name, f"the data type {array.data_type.name!r}")
            if len(byte_orders(array.data_type)) > 1:
                raise cannot(self.name, "a structure that mixes byte orders")
            if self.new_type(array.data_type) != array.data_type:
                what = f"big-endian items of the type {array.data_type.name!r}"
                raise cannot(self.name, what, "its extension types are little-endian")
        write_codecs(array, self.name)
        encoding = array.chunk_key_encoding
        if encoding.name != "v3-draft":
            separator = encoding.configuration.get("separator")
            encoding = self.key_encoding(separator if encoding.name != "v2" else None)
        return array.with_(chunk_key_encoding=encoding)

    def sharded(
        self, array: ArrayModel, shards: tuple[Any, ...], index_location: str = "end"
    ) -> ArrayModel:
        chunks = array.chunk_grid.configuration.get("chunk_shape", ())
        if any(isinstance(s, list) for s in shards):
            raise cannot(self.name, "shards of several lengths")
        if len(chunks) != len(shards) or any(s % c for s, c in zip(shards, chunks, strict=True)):
            raise cannot(self.name, f"shards {shards} of chunks {tuple(chunks)}")
        if index_location != "end":
            raise cannot(self.name, f"the index of a shard at its {index_location}")
        per_shard = [s // c for s, c in zip(shards, chunks, strict=True)]
        members = {"type": "indexed", "configuration": {"chunks_per_shard": per_shard}}
        return array.with_(storage_transformers=(Named(draft_extensions.SHARDING, members),))

    def new_type(self, named: Named) -> Named:
        # A codec states the byte order of core types; extension types are little-endian.
        return named if is_core(named) else numpy_types.without_order(named)

    def key_encoding(self, separator: str | None) -> Named:
        return Named("v3-draft", {"separator": separator or "/"})


def _grid(fields: Fields, shape: tuple[int, ...]) -> tuple[Named, Named]:
    """Return the chunk grid and the chunk key encoding, which the draft writes as one object."""
    value = fields.get("chunk_grid")
    nothing = Named(""), Named("v3-draft")
    if "chunk_grid" not in fields.values:
        return nothing
    if not fields.expect("chunk_grid", isinstance(value, dict), "an object", value):
        return nothing
    if "extension" in value:
        uri = extension_uri(fields, "chunk_grid", value)
        config = {k: v for k, v in value.items() if k != "extension"}
        return Named(uri, config), Named("v3-draft")
    inner = Fields(fields.key, value, [])
    inner.require("type", "chunk_shape")
    inner.choice("type", ("regular",))
    chunks = inner.integers("chunk_shape")
    separator = inner.choice("separator", ("/", "."))
    for problem in inner.problems:
        fields.error(f"chunk_grid.{problem.field}", problem.message)
    if not inner.problems and "shape" in fields.values:
        fields.check_chunks("chunk_grid.chunk_shape", chunks, shape)
    for name in value.keys() - {"type", "chunk_shape", "separator"}:
        fields.error(f"chunk_grid.{name}", "unknown member")
    grid = Named("regular", {"chunk_shape": list(chunks)})
    return grid, Named("v3-draft", {"separator": separator})


def _check_known(fields: Fields, known: set[str], minor: int) -> None:
    for name in fields.values.keys() - known:
        if minor:
            fields.warn(name, f"unknown field, perhaps of version 3.{minor}; ignored")
        else:
            fields.error(name, "unknown field")


def _zero(data_type: Named) -> Any:
    """Return the zero of a type in the draft's spelling."""
    name, zero = data_type.name, zero_json(data_type)
    if zero is not None:
        return zero
    if name in ("null_terminated_bytes", "fixed_length_utf32"):
        return ""
    size = itemsize(data_type) or 0
    if name == "struct":
        return binascii.b2a_base64(bytes(size), newline=False).decode()
    return "0x" + "00" * size if name[0] == "r" and name[1:].isdigit() else 0


class MetadataEncoding(Protocol):
    """An encoding other than JSON; registered as ``metadata_encoding`` under its URI."""

    def decode(self, data: bytes) -> Any: ...
    def encode(self, document: dict[str, Any]) -> bytes: ...


def read_encoding(fields: Fields) -> tuple[object, MetadataEncoding | None]:
    """Return the suffix of metadata keys, and the encoding if it is not JSON."""
    value = fields.get("metadata_encoding")
    if "metadata_encoding" not in fields.values:
        return ".json", None
    if not fields.expect("metadata_encoding", isinstance(value, dict), "an object", value):
        return ".json", None
    encoding: MetadataEncoding | None = None
    if "extension" in value:
        uri = extension_uri(fields, "metadata_encoding", value)
        encoding = registry.find("metadata_encoding", uri)
        if encoding is None:
            fields.error("metadata_encoding.extension", f"unknown encoding {uri!r}")
    else:
        stated = value.get("type")
        fields.expect("metadata_encoding.type", stated == "json", "'json'", stated)
    for name in sorted(value.keys() - {"extension", "type", "metadata_key_suffix"}):
        if "extension" not in value:  # which may have members of its own
            fields.warn(f"metadata_encoding.{name}", "unknown member; ignored")
    if "metadata_key_suffix" not in value:
        fields.error("metadata_encoding.metadata_key_suffix", "required, but missing")
    elif "extension" not in value and value["metadata_key_suffix"] != ".json":
        fields.warn("metadata_encoding.metadata_key_suffix", "expected '.json' for JSON")
    return value.get("metadata_key_suffix", ".json"), encoding


def load(encoding: MetadataEncoding | None, data: bytes, key: str) -> dict[str, Any]:
    """Decode a metadata document; `key` names it in errors."""
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
