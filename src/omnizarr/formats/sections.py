"""The sections of the specifications that the fields of metadata documents have to follow."""

from __future__ import annotations

import re

from omnizarr.errors import Problem

_V3_ARRAY = "Zarr 3, Array metadata"
_V3 = {
    "": "Zarr 3, Metadata documents",
    "zarr_format": f"{_V3_ARRAY}: zarr_format",
    "node_type": f"{_V3_ARRAY}: node_type",
    "shape": f"{_V3_ARRAY}: shape",
    "data_type": "Zarr 3, Data types",
    "chunk_grid": "Zarr 3, Chunk grids",
    "chunk_key_encoding": "Zarr 3, Chunk key encoding",
    "fill_value": f"{_V3_ARRAY}: fill_value",
    "codecs": "Zarr 3, Codecs",
    "attributes": f"{_V3_ARRAY}: attributes",
    "storage_transformers": "Zarr 3, Storage transformers",
    "dimension_names": f"{_V3_ARRAY}: dimension_names",
    "consolidated_metadata": "zarr-python, Consolidated metadata",
    "metadata_encoding": "Zarr 3 draft, Entry point metadata",
    "metadata_key_suffix": "Zarr 3 draft, Entry point metadata",
    "extensions": "Zarr 3 draft, Extensions",
    "must_understand": "Zarr 3, Extension definition",
}
_V2 = {
    "": "Zarr 2, Arrays: Metadata",
    "dtype": "Zarr 2, Arrays: Data type encoding",
    "fill_value": "Zarr 2, Arrays: Fill value encoding",
    "chunks": "Zarr 2, Arrays: Chunks",
    "dimension_separator": "Zarr 2, Arrays: Chunks",
    "filters": "Zarr 2, Arrays: Filters",
}
_V1 = {"": "Zarr 1, Metadata", "dtype": "Zarr 1, Data type encoding", "chunks": "Zarr 1, Chunks"}
_DRAFT = {
    "": "Zarr 3 draft, Array metadata",
    "data_type": "Zarr 3 draft, Data types",
    "chunk_grid": "Zarr 3 draft, Chunk grids",
    "compressor": "Zarr 3 draft, Codecs",
    "extensions": "Zarr 3 draft, Extensions",
    "storage_transformers": "Zarr 3 draft, Storage transformers",
}
_DRAFT_GROUP = {"": "Zarr 3 draft, Group metadata"}
# By the name of the document, and then by the first part of the field; "" for any other.
_SECTIONS: dict[str, dict[str, str]] = {
    "zarr.json": _V3,
    ".zarray": _V2,
    ".zgroup": {"": "Zarr 2, Hierarchies: Groups"},
    ".zattrs": {"": "Zarr 2, Attributes"},
    ".zmetadata": {"": "zarr-python, Consolidated metadata"},
    "meta": _V1,
    "attrs": {"": "Zarr 1, Attributes"},
    "attributes.json": {"": "N5, File-system specification"},
}
_NAMES = "Zarr 3, Node names"
_FIRST = re.compile(r"[^.\[]*")


def section_of(problem: Problem) -> str:
    """Return the section with the rule that a document breaks: "Zarr 3, Codecs"."""
    if not problem.field and problem.message.startswith("the path "):
        return _NAMES
    match = _FIRST.match(problem.field)
    first = match[0] if match else ""
    name = problem.key.rpartition("/")[2]
    sections = _SECTIONS.get(name)
    if sections is None and problem.key.startswith("meta/"):
        sections = _DRAFT_GROUP if "group" in name else _DRAFT
    if sections is None:
        return "Zarr, Hierarchies"
    return sections.get(first) or sections[""]
