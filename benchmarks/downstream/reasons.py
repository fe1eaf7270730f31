"""Reasons of the tests that pass on zarr-python and not on omnizarr in its place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchmarks.downstream import zarr_python

UNEXPLAINED = "not explained"


@dataclass(frozen=True)
class Reason:
    """What explains some failures: those of a package, by test and message."""

    package: str  # a regular expression
    test: str  # a regular expression
    message: str  # a regular expression
    text: str

    def covers(self, package: str, test: str, message: str) -> bool:
        return bool(
            re.fullmatch(self.package, package)
            and re.search(self.test, test)
            and re.search(self.message, message, re.DOTALL)
        )


REASONS: tuple[Reason, ...] = (
    Reason(".*", "", "Timeout .>", "took longer than the time limit of a test"),
    Reason(
        "xarray.*",
        "test_avoid_excess_metadata_calls",
        "0 == 1",
        "counts calls inside zarr-python, of which there are none",
    ),
    Reason(
        "xarray.*",
        r"test_to_zarr_compute_false\[",
        "exists",
        "a chunk of zeros is stored where the metadata define no fill value; zarr-python omits it,"
        " and readers may see other values",
    ),
    Reason("xarray-engine", "", "Regex pattern did not match", "other wording of the same error"),
    Reason(
        "xarray-engine",
        "",
        "'getitem' to have been called",
        "expects calls of zarr-python's own classes",
    ),
    Reason(
        "xarray-engine",
        "chunk|shard",
        "DID NOT RAISE ValueError",
        "blocks of Dask that do not line up with chunks are written correctly, not refused",
    ),
    Reason(
        "xarray-engine",
        "consolidated",
        "DID NOT WARN",
        "opening without consolidated metadata is no reason for a warning",
    ),
    Reason(
        "xarray-engine",
        "test_zarr_fill_value_setting",
        "_FillValue",
        "`use_zarr_fill_value_as_mask=False` is obeyed in version 2; xarray's engine ignores it",
    ),
    Reason(
        "xarray-engine",
        "encoding",
        "BloscCodec|cname",
        "codecs of version 3 in `encoding` are JSON, not objects of zarr-python",
    ),
    Reason(
        "xarray-engine",
        "TestZarrRectilinear",
        "DID NOT RAISE TypeError|shards: expected",
        "chunks of several lengths are written, not refused",
    ),
    Reason(
        "xarray.*",
        "TestInstrumentedZarrStore",
        "<= ",
        "reads more keys: before a node is created, it looks for nodes of every version, and for"
        " chunks without metadata",
    ),
    Reason(
        "xarray-engine",
        "test_raises_key_error_on_invalid_zarr_store",
        "",
        "axes without names are given names",
    ),
    Reason(
        "ome-zarr",
        "test_astronaut_download",
        "zattrs",
        "version 2 nodes without attributes have no empty `.zattrs`",
    ),
    Reason(
        "iohub|spatialdata",
        "",
        "holds something that is not Zarr",
        "files that are not Zarr are not deleted by overwriting",
    ),
    Reason(
        "spatialdata",
        "sdata_with_corrupted_elem_types_zgroup",
        "Regex pattern did not match",
        "a `.zgroup` without `zarr_format` is an error; zarr-python opens it",
    ),
    Reason(
        "spatialdata",
        "test_can_read_sdata_with_reconsolidation",
        "DID NOT RAISE GroupNotFoundError",
        "a node that consolidated metadata do not list is looked for in the store",
    ),
    Reason(
        "ome-zarr-models",
        "",
        "consolidated_metadata: expected an object, got null",
        "metadata that the specification does not allow are read with a warning",
    ),
    Reason(
        "virtualizarr",
        "test_zarr_v3_with_codecs",
        "takes items of",
        "a codec for another data type than that of the array is refused",
    ),
    Reason(
        "virtualizarr",
        "test_cftime_index",
        "At index 0 diff",
        "members are in the order of their names, not in that of the store",
    ),
    Reason(
        "icechunk",
        r"test_group\.py::test_group\[",
        " is GroupMetadata",
        "metadata of a group that are compared by identity",
    ),
    Reason(
        "anndata",
        "test_access_count",
        r"accesses at .*zarr\.json",
        "counts reads of keys: the metadata document of an array is read once more",
    ),
    Reason(
        "bio2zarr",
        "test_string_dtype_with_user_filters_v2",
        "is array->bytes, but codecs before it made bytes",
        "a filter that needs text after one that makes bytes is refused; on zarr-python the array"
        " is created, and no value can be written",
    ),
    Reason(
        "pydantic-zarr",
        "test_v2|test_v3",
        "json_eq|dimension_separator|storage_transformers|consolidated_metadata",
        "compares with stored documents, which have one form for the same meaning, without what is"
        " empty and without the default `dimension_separator`",
    ),
    Reason(
        "hdmf-zarr",
        "test_write_attributes",
        "not a tuple",
        "attributes are lists as soon as they are set, not only when they are read again",
    ),
    Reason(
        "hdmf-zarr",
        "TestPickleGate",
        "UnsafePickleCodecError not raised",
        "an array with a codec that runs code opens; its values cannot be read",
    ),
    *(Reason(r"zarr-python.*", *row) for row in zarr_python.REASONS),
)


def explain(package: str, test: str, message: str) -> str:
    """Return the text of the first reason that covers a failure."""
    message = re.sub(r"^failed: ((omnizarr|zarr)\.errors\.)?", "", message)
    covering = (reason.text for reason in REASONS if reason.covers(package, test, message))
    return next(covering, UNEXPLAINED)
