"""Zarr version 3, the final specification: one ``zarr.json`` per node."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from omnizarr._json import LazyObject, dumps, find_members, load_object
from omnizarr.errors import CannotExpress, InvalidMetadata, InvalidName, Problem
from omnizarr.formats import codec_names, format, numpy_types
from omnizarr.formats.codec_names import Codecs, as_object, inside, with_filter_orders, with_order
from omnizarr.formats.draft_extensions import is_sharding
from omnizarr.formats.format import Documents, Format, Kind, cannot, parse_once, write_once
from omnizarr.formats.numpy_types import as_json, byte_orders, check_pairs, only_old, zero_json
from omnizarr.model import ArrayModel, Dialect, FillValue, GroupModel, Named, Node, paths
from omnizarr.model.fields import MAX_LENGTH, MAX_RANK, Fields, named

REQUIRED = (
    "zarr_format",
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
)
CONSOLIDATED = "consolidated_metadata"
CONSOLIDATED_MEMBERS = (CONSOLIDATED, "metadata")
_VLEN = "vlen-utf8 is for strings and vlen-bytes for byte strings"
OPTIONAL = ("attributes", "storage_transformers", "dimension_names")


class V3(Format):
    """Zarr version 3."""

    name = "3"
    dialect: Dialect = "v3"
    names_in_attributes = False

    def path(self, path: str) -> str:
        return path  # a backslash is an ordinary character

    def keys(self, path: str) -> tuple[str, ...]:
        return (f"{path}/zarr.json" if path else "zarr.json",)

    def read(self, path: str, documents: Documents, problems: list[Problem]) -> Node | None:
        (key,) = self.keys(path)
        data = documents.get(key)
        if data is None:
            return None
        parse = partial(self._read, key, data, problems)
        node = parse_once((self.name, data), problems, parse)
        if isinstance(node, GroupModel):
            return node
        # Only here is the shape that of this array.
        lengths = node.chunk_grid.configuration.get("chunk_shape")
        empty = isinstance(lengths, list) and 0 in lengths
        return format.with_lengths(node, key, problems) if empty else node

    def _read(self, key: str, data: bytes, problems: list[Problem]) -> Node:
        if len(data) > format.LARGEST and f'"{CONSOLIDATED}"'.encode() in data:
            lazy: LazyObject | None = None
            with suppress(InvalidMetadata):  # it is read in full, to find out why
                lazy = LazyObject.read(data, key, CONSOLIDATED_MEMBERS)
            inside = None if lazy is None or lazy.get("node_type") != "group" else lazy.inner
            if lazy is not None and inside is not None and inside.inner is not None:
                return self._read_consolidated(key, lazy, inside, problems)
        shape, attributes, rest = _split(data)
        if shape is None:
            return self._read_document(key, data, problems)
        # Metadata of many arrays differ only in shape and attributes.
        parse = partial(self._read_document, key, rest, problems)
        node = parse_once((self.name, rest), problems, parse)
        if not isinstance(node, ArrayModel):
            return node
        own = load_object(attributes, key) if len(attributes) > 2 else {}
        # One for all that have none, see `write_once`.
        return node.with_(shape=shape, attributes=own or node.attributes)

    def _read_document(self, key: str, data: bytes, problems: list[Problem]) -> Node:
        return self._parse(key, _load(data, key, problems), problems)

    def _read_consolidated(
        self, key: str, doc: LazyObject, inside: LazyObject, problems: list[Problem]
    ) -> Node:
        """Read a group, but its consolidated metadata only when they are used."""
        first, second = CONSOLIDATED_MEMBERS
        short = {name: doc[name] for name in doc if name != first}
        short[first] = {name: inside[name] for name in inside if name != second} | {second: {}}
        node = self._parse(key, short, problems)
        used = isinstance(node, GroupModel) and node.consolidated is not None
        return node.with_(consolidated=inside.inner) if used else node

    def _parse(self, key: str, doc: dict[str, Any], problems: list[Problem]) -> Node:
        fields = Fields(key, doc, problems)
        fields.require("zarr_format", "node_type")
        format.check_version(fields, 3)
        kind = fields.choice("node_type", ("array", "group"))
        if kind == "group" and "node_type" in doc:
            return self._read_group(fields)
        return self._read_array(fields)

    def _read_group(self, fields: Fields) -> GroupModel:
        attributes = fields.attributes()
        known = ("zarr_format", "node_type", "attributes", "consolidated_metadata")
        extra = _extra(fields, known)
        consolidated = fields.get("consolidated_metadata")
        inside: Mapping[str, Any] | None = None
        if isinstance(consolidated, dict):
            inside = consolidated.get("metadata")
            good = consolidated.get("kind") == "inline" and isinstance(inside, dict)
            if consolidated.get("must_understand") is not False:
                fields.error("consolidated_metadata.must_understand", "expected false")
            elif not good:
                fields.warn("consolidated_metadata", "not of kind 'inline'; ignored")
                inside = None
        elif "consolidated_metadata" in fields.values:
            if consolidated is None:
                fields.warn("consolidated_metadata", "expected an object, got null; leave it out")
            else:
                fields.expect("consolidated_metadata", False, "an object", consolidated)
        fields.done("not valid zarr 3")
        return GroupModel(attributes, extra, inside)

    def _read_array(self, fields: Fields) -> ArrayModel:
        fields.require(*REQUIRED[2:-1])
        shape = fields.integers("shape")
        data_type = self._essential(fields, "data_type")
        if "endian" in data_type.configuration:
            fields.error("data_type.configuration.endian", "not a member of a version 3 type")
        older = "the type 'object'" if data_type.name == "object" else only_old(data_type)
        if older is not None:
            fields.error("data_type", f"{older} is not part of version 3")
        grid = self._essential(fields, "chunk_grid")
        encoding = self._essential(fields, "chunk_key_encoding")
        codecs = self._codecs(fields, len(shape), data_type)
        order = "little" if byte_orders(data_type) else None
        if with_order(codecs, order) != codecs:
            fields.warn("codecs", "'bytes' without 'endian' for a multi-byte type; read as little")
        transformers = [named(fields, *item) for item in fields.items("storage_transformers")]
        attributes = fields.attributes()
        dimension_names = self._dimension_names(fields, len(shape))
        extra = _extra(fields, (*REQUIRED, *OPTIONAL))
        fill = self._fill_value(fields, data_type)
        fields.done("not valid zarr 3")
        return ArrayModel(
            shape=shape,
            data_type=data_type,
            chunk_grid=grid,
            chunk_key_encoding=encoding,
            fill_value=FillValue(fill, self.dialect),
            codecs=codecs,
            storage_transformers=tuple(transformers),
            attributes=attributes,
            dimension_names=dimension_names,
            extra=extra,
        )

    def _fill_value(self, fields: Fields, data_type: Named) -> Any:
        """Return the JSON of the fill value, with what some writers put there mended."""
        fill = fields.get("fill_value")
        if data_type.name == "bool" and type(fill) is int and fill in (0, 1):
            word = "true" if fill else "false"
            message = f"expected true or false, got {fill}, as zarrita wrote; read as {word}"
            fields.warn("fill_value", message)
            return bool(fill)
        zero = zero_json(data_type) if fill is None and "fill_value" in fields.values else None
        if zero is not None:
            message = "expected a value, got null, as GDAL writes for maps without nodata; read as"
            fields.warn("fill_value", f"{message} {json.dumps(zero)}")
            return zero
        if isinstance(fill, str) and re.fullmatch(r"r\d+", data_type.name):
            fields.warn("fill_value", "expected a list of bytes, got text, read as Base64")
        return fill

    def _essential(self, fields: Fields, name: str) -> Named:
        """Read an extension that can never be skipped."""
        if name not in fields.values:
            return Named("")
        found = named(fields, name, fields.get(name))
        if not found.must_understand:
            message = f"must not be false here: {found.name!r} cannot be ignored"
            fields.error(f"{name}.must_understand", message)
        return found

    def _codecs(self, fields: Fields, rank: int, data_type: Named) -> tuple[Named, ...]:
        if "codecs" not in fields.values:
            message = "required, but missing, as GDAL up to 3.10 wrote; read as 'bytes', little"
            fields.warn("codecs", message)
            return (Named("bytes", {"endian": "little"}),)
        found = tuple(named(fields, *item) for item in fields.items("codecs"))
        if fields.get("codecs") == []:
            fields.error("codecs", "expected at least one codec that makes bytes, such as 'bytes'")
        fitting = codec_names.with_vlen(found, data_type)
        if fitting != found:
            fields.warn("codecs", f"{_VLEN}; read for {data_type.name!r}")
        modern = codec_names.modern(fitting, rank)
        if codec_names.has_letters(fitting):
            fields.warn("codecs", "the order of a transpose: expected a list of axes")
        try:
            whole = codec_names.completed(modern, data_type)
        except (InvalidMetadata, CannotExpress) as e:
            fields.error("codecs", str(e))
            return modern
        if whole != modern:
            message = "a member that follows from the array's type is missing; read as zarr-python"
            fields.warn("codecs", f"{message} does")
        return whole

    def _dimension_names(self, fields: Fields, rank: int) -> tuple[str | None, ...] | None:
        value = fields.get("dimension_names")
        if value is None:
            if "dimension_names" in fields.values:
                message = "expected a list of strings and nulls, got null; leave the field out"
                fields.warn("dimension_names", message)
            return None
        good = isinstance(value, list) and all(n is None or isinstance(n, str) for n in value)
        if not fields.expect("dimension_names", good, "a list of strings and nulls", value):
            return None
        if len(value) != rank:
            message = f"has {len(value)} entries, but shape has {rank}"
            fields.error("dimension_names", message)
        filled = [n for n in value if n]
        if len(set(filled)) < len(filled):
            fields.warn("dimension_names", "the same name occurs twice")
        return tuple(value)

    def write(self, path: str, node: Node) -> dict[str, bytes | None]:
        (key,) = self.keys(path)
        if isinstance(node, GroupModel) and isinstance(node.consolidated, LazyObject):
            start, end = self.around_consolidated(node)
            entries = node.consolidated.text  # as they are
            return {key: b"".join((start[:-1], entries, end[1:]))}
        return {key: write_once(node, lambda some: dumps(self.document(some), indent=2))}

    def around_consolidated(self, group: GroupModel) -> tuple[bytes, bytes]:
        """Return the text of a group before and after the members of its consolidated metadata."""
        text = dumps(self.document(group.with_(consolidated={})), indent=2)
        start, end = text[: text.rindex(b"{}") + 1], text[text.rindex(b"{}") + 1 :]
        return start, end

    def document(self, node: Node) -> dict[str, Any]:
        """Return the metadata document of a node."""
        doc: dict[str, Any] = {"zarr_format": 3, "node_type": node.kind}
        if isinstance(node, GroupModel):
            doc["attributes"] = dict(node.attributes)
            doc.update(node.extra)
            if node.consolidated is not None:
                doc[CONSOLIDATED] = {
                    "kind": "inline",
                    "must_understand": False,
                    "metadata": dict(node.consolidated),
                }
            return doc
        array = self.adapt(node)
        doc["shape"] = list(array.shape)
        doc["data_type"] = as_json(array.data_type)
        doc["chunk_grid"] = as_object(array.chunk_grid)
        doc["chunk_key_encoding"] = as_object(array.chunk_key_encoding)
        doc["fill_value"] = array.fill_value.json
        doc["codecs"] = [as_object(codec) for codec in array.codecs]
        doc["attributes"] = dict(array.attributes)
        if array.dimension_names is not None:
            doc["dimension_names"] = [n or None for n in array.dimension_names]
        if array.storage_transformers:
            doc["storage_transformers"] = [as_object(t) for t in array.storage_transformers]
        doc.update(array.extra)
        return doc

    def adapt(self, array: ArrayModel) -> ArrayModel:
        if array.data_type.name == "object":
            raise cannot(self.name, "Python objects", "the type 'object' is not part of version 3")
        older = only_old(array.data_type)
        if older is not None:
            raise cannot(self.name, older)
        orders = byte_orders(array.data_type)
        if len(orders) > 1:
            raise cannot(self.name, "a structure that mixes byte orders")
        check_pairs(array.data_type, self.name)
        order = next(iter(orders), None)
        named = codec_names.completed(_renamed(array), array.data_type)
        codecs = with_filter_orders(with_order(named, order))
        if codec_names.with_vlen(codecs, array.data_type) != codecs:
            raise InvalidMetadata(f"{_VLEN}, not for {array.data_type.name!r}")
        of_draft = array.fill_value.dialect == "v3-draft"
        if any(of_draft or is_sharding(t) for t in array.storage_transformers):
            raise cannot(self.name, "the draft's storage transformers")
        encoding = array.chunk_key_encoding
        if encoding.name == "v3-draft":
            encoding = Named("default", dict(encoding.configuration))
        grid, lengths = array.chunk_grid, array.chunk_grid.configuration.get("chunk_shape")
        if grid.name == "regular" and isinstance(lengths, list) and 0 in lengths:
            grid = grid.replace(chunk_shape=[c or 1 for c in lengths])  # as readers accept
        from_older = array.fill_value.dialect != self.dialect
        changed = {
            "attributes": format.without_duplicate_names(array) if from_older else array.attributes,
            "data_type": numpy_types.without_order(array.data_type),
            "chunk_grid": grid,
            "codecs": codecs,
            "chunk_key_encoding": encoding,
        }
        same = all(getattr(array, name) == value for name, value in changed.items())
        return array if same else array.with_(**changed)

    def default_codecs(
        self, itemsize: int | None, variable: str | None, choice: str
    ) -> tuple[Named, ...]:
        if variable is not None:
            return (Named(variable), Named("zstd", {"level": 0, "checksum": True}))
        if choice == "portable":  # GDAL up to 3.12 does not know crc32c
            return (Named("bytes"), Named("zstd", {"level": 3, "checksum": True}))
        size = itemsize or 1
        blosc = codec_names.blosc({"shuffle": 1 if size > 1 else 0}, size)
        return (Named("bytes"), blosc, Named("crc32c"))

    def own_codec(self, codec: Named, size: int) -> Named:
        return codec_names.own_name(codec, size)

    def sharded(
        self, array: ArrayModel, shards: tuple[Any, ...], index_location: str = "end"
    ) -> ArrayModel:
        if array.chunk_grid.name != "regular":
            raise cannot(self.name, f"shards of a {array.chunk_grid.name} grid")
        config = {
            "chunk_shape": list(array.chunk_grid.configuration["chunk_shape"]),
            "codecs": list(array.codecs),
            "index_codecs": [Named("bytes", {"endian": "little"}), Named("crc32c")],
            "index_location": index_location,
        }
        if any(isinstance(n, list) for n in shards):
            grid = Named("rectilinear", {"kind": "inline", "chunk_shapes": list(shards)})
        else:
            grid = Named("regular", {"chunk_shape": list(shards)})
        return array.with_(chunk_grid=grid, codecs=(Named("sharding_indexed", config),))

    def new_type(self, named: Named) -> Named:
        return numpy_types.renamed_struct(named)

    def key_encoding(self, separator: str | None) -> Named:
        return Named("default", {"separator": separator or "/"})

    def check_name(self, path: str) -> None:
        for name in path.split("/") if path else ():
            problem = None if name.isalnum() else name_problem(name)
            if problem:
                raise InvalidName(f"node name {name!r} in {paths.show(path)!r} {problem}")

    def name_advice(self, path: str) -> str | None:
        """Return why a path that is allowed should better be changed, or None."""
        if path.isascii() and "__" not in path and "\\" not in path:
            return None  # as nearly all
        found = next(filter(None, map(reserved, (*paths.ancestors(path), path))), None)
        if found is not None:
            return found
        if "\\" in path:
            return "contains a backslash, which other readers take for a slash and Windows refuses"
        normal = unicodedata.normalize("NFKC", path)
        if path == normal:
            return None
        return f"is not in Unicode's form NFKC ({normal!r}); stores that normalize may lose it"

    def name_warning(self, path: str) -> str | None:
        return reserved(path)

    def children(self, path: str, keys: list[str], prefixes: list[str]) -> dict[str, Kind | None]:
        found = (paths.name(p[:-1]) for p in prefixes)
        return {name: None for name in found if name_problem(name) is None}

    def is_metadata(self, key: str) -> bool:
        return paths.name(key) == "zarr.json"

    def is_zarr_key(self, key: str) -> bool:
        last = paths.name(key)
        parts = last.removeprefix("c").strip(".").split(".")
        reserved = any(segment.startswith("__") for segment in key.split("/"))
        return reserved or last in ("zarr.json", "c") or all(p.isdigit() for p in parts)


def _load(data: bytes, key: str, problems: list[Problem]) -> dict[str, Any]:
    """Return a document; numbers in attributes that JSON does not have are only a warning."""
    try:
        return load_object(data, key)
    except InvalidMetadata as e:
        doc = load_object(data, key, allow_nan=True)
        try:
            json.dumps({k: v for k, v in doc.items() if k not in _FREE}, allow_nan=False)
        except ValueError:
            raise e from None
    message = "bare NaN or Infinity, as zarr-python writes, is not JSON; read as a number"
    problems.append(Problem(key, "attributes", message, "warning"))
    return doc


_FREE = ("attributes", CONSOLIDATED)  # which hold any attributes


def _split(data: bytes) -> tuple[tuple[int, ...] | None, bytes, bytes]:
    """Return the shape of an array, None for others, its attributes' text, and the rest."""
    levels = find_members(data) if len(data) <= format.LARGEST else None
    found = levels[0] if levels else {}
    if "shape" not in found or "attributes" not in found:
        return None, b"", b""
    (_, start, end), (_, begin, stop) = found["shape"], found["attributes"]
    numbers = data[start + 1 : end - 1]
    try:
        shape = [*map(int, numbers.split(b","))] if numbers.strip() else []
    except ValueError:
        return None, b"", b""
    valid = len(shape) <= MAX_RANK and min(shape, default=0) >= 0 and math.prod(shape) <= MAX_LENGTH
    if data[start : start + 1] != b"[" or data[begin : begin + 1] != b"{" or not valid:
        return None, b"", b""
    zeros = b"[%b]" % b",".join([b"0"] * len(shape))
    if start < begin:
        rest = (data[:start], zeros, data[end:begin], b"{}", data[stop:])
    else:
        rest = (data[:begin], b"{}", data[stop:start], zeros, data[end:])
    return tuple(shape), data[begin:stop], b"".join(rest)


def _extra(fields: Fields, known: tuple[str, ...]) -> dict[str, Any]:
    extra = {}
    for name, value in fields.values.items():
        if name in known:
            continue
        if isinstance(value, dict) and value.get("must_understand") is False:
            extra[name] = value
        else:
            fields.error(name, "unknown field that is not marked with must_understand: false")
    return extra


def _renamed(array: ArrayModel) -> Codecs:
    """Return the array's codecs by their names in version 3."""

    def index(inner: Codecs) -> Codecs:
        shape = (*array.shape, 2)
        return _renamed(array.with_(data_type=Named("uint64"), shape=shape, codecs=inner))

    return tuple(
        inside(codec, lambda inner: _renamed(array.with_(codecs=inner)), index)
        for codec in codec_names.to_names(array)
    )


RESERVED = (
    "names that start with '__' are reserved by zarr 3 for extensions (its section 'Node names'),"
    " so other readers may hide the node"
)


def name_problem(name: str) -> str | None:
    """Return why version 3 forbids a node name, or None; see `reserved` for reserved names."""
    if not name:
        return "is empty"
    if "/" in name:
        return "contains a slash"
    if not name.strip("."):
        return "consists of periods only"
    return "is the name of the metadata document" if name == "zarr.json" else None


def reserved(path: str) -> str | None:
    """Return why version 3 reserves the last name of a path, or None; xarray stores such nodes."""
    name = paths.name(path)
    return f"has the name {name!r}; {RESERVED}" if name.startswith("__") else None
