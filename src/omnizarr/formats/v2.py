"""Zarr version 2: ``.zarray``, ``.zgroup`` and ``.zattrs`` next to the chunks."""

from __future__ import annotations

from typing import Any

from omnizarr._json import dumps, kind_of, load_object
from omnizarr.errors import InvalidName, Problem
from omnizarr.formats import codec_names, format
from omnizarr.formats.format import Documents, Format, check_version, parse_once
from omnizarr.formats.numpy_types import to_type_string
from omnizarr.formats.v1 import check_fill, read_type
from omnizarr.model import ArrayModel, Dialect, FillValue, GroupModel, Named, Node, paths
from omnizarr.model.fields import Fields
from omnizarr.model.node import PREFIX

FIELDS = ("zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters")
NAMES = (".zarray", ".zgroup", ".zattrs")
OBJECT_TYPES = {"vlen-utf8": "string", "vlen-bytes": "bytes"}


class V2(Format):
    """Zarr version 2."""

    name = "2"
    dialect: Dialect = "v2"
    undefined_fill = True
    # zarr-python 2 has no crc32c, and tensorstore no filters at all.
    checksums_are_read = False
    codecs_by_id = True

    def __init__(self, separator: str = ".") -> None:
        # In chunk keys, if the metadata do not state one: nested stores never did.
        self.separator = separator

    def keys(self, path: str) -> tuple[str, ...]:
        if not path:
            return NAMES
        start = paths.prefix(paths.forward(path))
        return (start + ".zarray", start + ".zgroup", start + ".zattrs")

    def check_name(self, path: str) -> None:
        super().check_name(path)
        for name in path.split("/"):
            if name in (*NAMES, ".zmetadata"):
                raise InvalidName(
                    f"node name {name!r} in {paths.show(path)!r} is the name of a metadata document"
                )

    def read(self, path: str, documents: Documents, problems: list[Problem]) -> Node | None:
        array, group, attrs = self.keys(path)
        if array not in documents and group not in documents:
            return None
        own = self.name, self.separator, documents.get(array), documents.get(group)
        node = parse_once(own, problems, lambda: self._parse(path, documents, problems))
        if attrs not in documents:
            return node
        attributes = load_object(documents[attrs], attrs, allow_nan=True)
        if isinstance(node, GroupModel):
            return node.with_(attributes=attributes)
        rank = len(node.shape)
        found = format.from_attributes(attributes, rank, attrs, problems)
        if found is None:
            found = format.from_nczarr(attributes, rank)
        names = node.dimension_names if found is None else found
        return node.with_(attributes=attributes, dimension_names=names)

    def _parse(self, path: str, documents: Documents, problems: list[Problem]) -> Node:
        """Return the node without its attributes."""
        array, group, _ = self.keys(path)
        if array in documents:
            if group in documents:
                message = "an array and a group share one path; the array is used"
                problems.append(Problem(group, "", message, "warning"))
            doc = load_object(documents[array], array, allow_nan=True)
            return self._read_array(array, doc, problems)
        doc = load_object(documents[group], group)
        fields = Fields(group, doc, problems)
        if "zarr_format" not in doc:
            fields.warn("zarr_format", "required, but missing; read as 2")
        check_version(fields, 2)
        extra = {k: v for k, v in doc.items() if k != "zarr_format"}
        _warn_unknown(fields, extra)
        fields.done("not valid zarr 2")
        return GroupModel(extra=extra)

    def _read_array(self, key: str, doc: dict[str, Any], problems: list[Problem]) -> ArrayModel:
        fields = Fields(key, doc, problems)
        fields.require(*FIELDS)
        check_version(fields, 2)
        lengths = format.chunk_lengths(doc.get("chunks"), doc.get("shape"))
        if format.warn_of_lengths(fields, "chunks", doc.get("chunks"), lengths):
            fields.values = {**doc, "chunks": lengths}
        shape = fields.integers("shape")
        chunks = fields.chunks(shape)
        order = fields.choice("order", ("C", "F"))
        separator = fields.choice("dimension_separator", (".", "/"))
        separator = separator if "dimension_separator" in doc else self.separator
        data_type = read_type(fields)
        check_fill(fields, data_type)
        fill = doc.get("fill_value")
        of_bytes = data_type.name in ("struct", "null_terminated_bytes")
        if of_bytes and (fill == 0 or isinstance(fill, dict)):  # others are refused
            fields.warn("fill_value", f"expected Base64 text or null, got {kind_of(fill)}")
        steps = _steps(fields)
        if data_type.name == "object":
            kinds = [OBJECT_TYPES[s["id"]] for s in steps if s["id"] in OBJECT_TYPES]
            data_type = Named(kinds[0]) if kinds else data_type
        extra = {k: v for k, v in doc.items() if k not in (*FIELDS, "dimension_separator")}
        _warn_unknown(fields, extra)
        fields.done("not valid zarr 2")
        return ArrayModel(
            shape=shape,
            data_type=data_type,
            chunk_grid=Named("regular", {"chunk_shape": list(chunks)}),
            chunk_key_encoding=self.key_encoding(separator),
            fill_value=FillValue(doc["fill_value"], self.dialect),
            codecs=codec_names.from_ids(steps, order, len(shape), data_type),
            dimension_names=format.from_nczarr(extra, len(shape)),
            extra=extra,
        )

    def write(self, path: str, node: Node) -> dict[str, bytes | None]:
        array_key, group_key, attrs_key = self.keys(path)
        if isinstance(node, GroupModel):
            attributes = dict(node.attributes)
            doc = {**node.extra, "zarr_format": 2}
        else:
            attributes = format.to_attributes(node, self.name)
            doc = self._array_document(self.adapt(node))
        text = dumps(doc, indent=4, sort_keys=True)
        is_array = isinstance(node, ArrayModel)
        return {
            array_key: text if is_array else None,
            group_key: None if is_array else text,
            attrs_key: dumps(attributes, indent=4, sort_keys=True) if attributes else None,
        }

    def _array_document(self, array: ArrayModel) -> dict[str, Any]:
        order, steps, _ = codec_names.to_ids(array, self.name)
        filters, compressor = codec_names.split_compressor(steps)
        doc = {
            **array.extra,
            "zarr_format": 2,
            "shape": list(array.shape),
            "chunks": list(array.chunk_grid.configuration["chunk_shape"]),
            "dtype": to_type_string(array.data_type, self.name),
            "compressor": compressor,
            "fill_value": array.fill_value.json,
            "order": order,
            "filters": filters,
        }
        separator = array.chunk_key_encoding.configuration.get("separator", ".")
        if separator == self.separator == ".":
            return doc
        return {**doc, "dimension_separator": separator}

    def adapt(self, array: ArrayModel) -> ArrayModel:
        format.check_plain(array, self.name)
        to_type_string(array.data_type, self.name)
        order, steps, data_type = codec_names.to_ids(array, self.name)
        encoding = array.chunk_key_encoding
        if encoding.name != "v2":
            encoding = self.key_encoding(None)
        return array.with_(
            codecs=codec_names.from_ids(steps, order, len(array.shape), data_type),
            data_type=data_type,
            chunk_key_encoding=encoding,
        )

    def default_codecs(
        self, itemsize: int | None, variable: str | None, choice: str
    ) -> tuple[Named, ...]:
        first, compressor = super().default_codecs(itemsize, None, choice)
        return (first if variable is None else Named(PREFIX + variable), compressor)

    def key_encoding(self, separator: str | None) -> Named:
        return Named("v2", {"separator": separator or self.separator})

    def is_metadata(self, key: str) -> bool:
        return paths.name(key) in (*NAMES, ".zmetadata")

    def is_zarr_key(self, key: str) -> bool:
        last = paths.name(key)
        return last in (*NAMES, ".zmetadata") or last.replace(".", "").isdigit()


def _steps(fields: Fields) -> list[dict[str, Any]]:
    """Return filters and compressor in the order of encoding."""
    filters, compressor = fields.get("filters"), fields.get("compressor")
    several = filters is None or isinstance(filters, list)
    fields.expect("filters", several, "a list or null", filters)
    stated = {f"filters[{i}]": step for i, step in enumerate(filters or ())} if several else {}
    if compressor is not None:
        stated["compressor"] = compressor
    steps = []
    for field, step in stated.items():
        if fields.expect(field, isinstance(step, dict), "an object with 'id'", step):
            id_ = step.get("id")
            if fields.expect(f"{field}.id", isinstance(id_, str), "a string", id_):
                steps.append(step)
    return steps


def _warn_unknown(fields: Fields, extra: dict[str, Any]) -> None:
    for name in extra:
        if not format.is_nczarr(name):
            fields.warn(name, "not a field of version 2; ignored")
