"""Reasons of differences in zarr-python's own tests: which test, which error, and why.

The first that matches a failure explains it. Every rule names the error, so that a test that fails
in another way is not explained by it. Private names, calls of mocks and signatures are
zarr-python's internals; words are texts of errors of the right class, which say the same; the
others are differences on purpose, which `docs/zarr-python.md` describes.
"""

from __future__ import annotations

INTERNALS = "zarr-python's internals: "
WORDS = "the words of an error or warning"
PURPOSE = "on purpose: "
NO_WARNING = "no reason for a warning: "
PIPELINE = INTERNALS + "its codec pipeline, codecs and buffers do the work"
REQUESTS = INTERNALS + "which requests its stores get"
ONE_FORM = PURPOSE + "documents have one form for the same meaning, without what is empty"
INVALID = PURPOSE + "metadata that the specification forbids are refused, not repaired"
MORE = PURPOSE + "more is accepted"

# What our errors say where zarr-python's, of the same class, have other words.
_SAID = "|".join(
    (
        r"cannot select with",
        r"a basic selection has",
        r"the mask for axis",
        r"is out of bounds for axis",
        r"too many indices: the array has",
        r"the list for axis \d+ has 2 dimensions",
        r"cannot put values of shape",
        r"there is (no|already an?) ",
        r"is not the (array|group) that was expected",
        r"is an array; nothing can be below it",
        r"is an array, so",
        r"exists already; leave the node",
        r"have one format, but",
        r"is read-only; (to write, )?open it",
        r"cannot resize",
        r"is not known; use r, r\+",
        r"cannot be stored as JSON",
        r"Invalid value for 'zarr_format'",
        r"is of kind group, not an array",
        r"codec 'scale_offset': (en|de)code: .*(outside of|not a multiple of)",
        r"shorter than its index",
        r"storage_transformers: expected a list",
    )
)

# A test and an error, as regular expressions, and the reason.
REASONS: tuple[tuple[str, str, str], ...] = (
    # Its internals
    (
        "",
        r"^AttributeError: .*has no attribute '(_getitem_consolidated|_from_bytes_v2|"
        r"_get_selection)'",
        INTERNALS + "private attributes",
    ),
    ("", r"^AttributeError: .*has no attribute 'codec_pipeline'", PIPELINE),
    (r"test_repair\.py::", r"_stored_document|\(False, None\) == \(True, None\)", INVALID),
    (r"test_config_(codec|ndbuffer)_", r"'call' to have been called|isinstance\(", PIPELINE),
    (
        r"test_config_buffer|test_buffer\.py::",
        r"^StoreError: cannot read .* is (Test|My)?\w*Buffer",
        PIPELINE,
    ),
    (
        r"test_fused_pipeline\.py::test_thread_pool_(read|write)_worker_exception",
        r"DID NOT RAISE.*RuntimeError",
        PIPELINE,
    ),
    (r"test_sync_api_compute_off_event_loop", r"assert 0 > 0", PIPELINE),
    (r"prototype|buffer_implementation", r"is TestBuffer", PIPELINE),
    (r"test_accessed_chunks", r"'__getitem__', 'zarr.json'", REQUESTS),
    (r"test_like_args", r"Omitting \d identical items", INTERNALS + "private functions"),
    (
        r"docstring_consistent_parameters|docstrings_match|test_consistent_signatures",
        r"^not run",
        INTERNALS + "signatures",
    ),
    (
        r"test_from_array\[",
        r"cannot be stored as uint8",
        PURPOSE + "values that a data type cannot hold are refused",
    ),
    (
        r"test_properties\.py::",
        r"is that of a metadata document",
        PURPOSE + "nodes may not have the names of metadata documents",
    ),
    (
        r"TestLocalStore::test_move",
        r"was deleted or moved since",
        PURPOSE + "an array stays where it was opened when its files are moved",
    ),
    (
        r"test_repair\.py::",
        r"expected (a )?positive integer|expected an integer >= 0|was deleted or moved since|"
        r"Array 'file|\[1\] == \[0\]",
        INVALID,
    ),
    (
        r"test_from_array_preserves_dtype",
        r"expected a list of bytes, got text",
        "a warning of omnizarr where zarr-python has none or another",
    ),
    (
        r"async_only_inner_codec",
        r"^UnknownCodecError: .*unknown codec 'test-async-only-noop'",
        PURPOSE + "a codec whose class is not registered is refused: it could not be read again",
    ),
    (r"test_resize\.py::test_resize_keeps_retained", r"assert set\(\) == \{", REQUESTS),
    (
        r"test_resize\.py::test_resize_(delete_failure|bounds_pending|shrinking_skips)",
        r"DID NOT RAISE.*OSError|assert 0 == 3000|assert \[\] == \[",
        REQUESTS,
    ),
    (r"test_resize_growing_skips_chunk_enumeration", r"assert 0 > 0", REQUESTS),
    (r"num_gets|_create_metadata_once", r"assert \d+ == ", REQUESTS),
    (r"concurrency_limit", r"assert [\d.e-]+ > \(", REQUESTS),
    (r"test_logging_store_counter", r"assert 1 == 0", REQUESTS),
    (
        r"partial_shard_read|sharding_duplicate_read|test_load_partial_shard",
        r"Store is read-only but mode is 'a'|assert array\(0\., dtype=float32\) == -999",
        INTERNALS + "stores that are mocks",
    ),
    (r"test_bulk_decode_engagement", r"fast path was never reached", PIPELINE),
    (
        r"test_sync\.py::test_threadpool_executor",
        r"assert \[None\] != \[None\]",
        INTERNALS + "its event loop and threads",
    ),
    (
        r"signature|test_default_filters_compressors",
        r"^KeyError: '(name|nodes|compressors)'|Parameter \"storage_options",
        INTERNALS + "signatures",
    ),
    (
        r"test_group\[",
        r"assert GroupMetadata\(.* is GroupMetadata\(",
        INTERNALS + "objects that are compared by identity",
    ),
    (
        r"test_group_members_async",
        r"assert 6 == 4",
        INTERNALS + "metadata objects that a test changes by force",
    ),
    (
        r"_unbuildable_node",
        r"DID NOT RAISE.*RuntimeError",
        INTERNALS + "functions that a test replaces",
    ),
    (
        r"test_iter_shard_regions_bounds",
        r"DID NOT RAISE.*IndexError",
        INTERNALS + "private methods",
    ),
    (
        r"nbytes_stored|info_complete",
        r"assert \d+ == \d+|_count_bytes_stored",
        INTERNALS + "the number of bytes of a metadata document",
    ),
    # Warnings
    (
        r"sharding_warning_fires_once|test_invalid_metadata_create_array",
        r"DID NOT WARN|assert 0 == 1",
        NO_WARNING + "codecs around shards are written by another pipeline",
    ),
    (
        r"\[zip-(zarr)?2",
        r"DID NOT WARN.*UserWarning",
        PURPOSE + "no empty .zattrs: version 2 nodes without attributes have none",
    ),
    (
        r"test_group_members\[|use_consolidated_for_children",
        r"DID NOT WARN.*ZarrUserWarning",
        NO_WARNING + "files that are not Zarr, or nodes that are gone, are passed over",
    ),
    (
        r"test_group_create_array\[.*-array\]",
        r"DID NOT WARN.*Use Group\.create_array instead",
        NO_WARNING + "Group.array() of zarr-python 3.1 gives itself a deprecated `compressor`",
    ),
    (
        r"test_numcodecs\.py::|test_roundtrip_numcodecs",
        r"DID NOT WARN.*ZarrUserWarning",
        NO_WARNING + "arrays with codecs of numcodecs are opened",
    ),
    (
        r"test_repair\.py::",
        r"DID NOT WARN|Regex pattern did not match any of the \d+ warnings",
        INVALID,
    ),
    (
        "",
        r"OmnizarrWarning: .*(the same name occurs twice|metadata of zarr 3 and zarr 2|"
        r"has a byte order, but one byte|'bytes' without 'endian'|"
        r"subchunk_write_order='colexicographic' has no effect|"
        r"chunks outside .* (are kept|show again))",
        "a warning of omnizarr where zarr-python has none or another",
    ),
    # Metadata
    (
        r"create_creates_parents\[.*(zarr2|2-)",
        r"'\.zattrs'",
        PURPOSE + "no empty .zattrs: version 2 nodes without attributes have none",
    ),
    (r"test_v2_encode_decode", r"dimension_separator", ONE_FORM),
    (r"test_v2_chunk_encoding", r"assert \S+\(.*\) == (None|\()|assert None == ", ONE_FORM),
    (r"byte_order_irrelevant", r"'<i1'|has a byte order", ONE_FORM),
    (
        r"test_io\.py::test_upsert",
        r"storage_transformers|dimension_separator|new=\{\}",
        ONE_FORM,
    ),
    (r"test_migrate_incorrect_compressor", r"assert 0 == 1", ONE_FORM),
    (
        r"test_repair\.py::",
        r"InvalidMetadata: .*(chunk_shape|chunks\[|chunk_grid)|Regex pattern did not match"
        r".*chunk_shape",
        INVALID,
    ),
    (
        r"test_generic_time_array_roundtrip",
        r"has no unit|generic\]': times have 8 bytes",
        PURPOSE + "version 2 requires a unit for times; those without one are refused",
    ),
    (
        r"test_generic_time_array_roundtrip",
        r"\('generic', 1\) == \('generic', \d+\)",
        PURPOSE + "a multiple of no unit is dropped, as NumPy does",
    ),
    (
        r"test_v2\.py::test_pickle_codec",
        r"runs code from the data; refused",
        PURPOSE + "codecs that run code from the data are refused, whatever the configuration says",
    ),
    (
        r"missing_v2_codec_reports",
        r"DID NOT RAISE.*UnknownCodecError",
        PURPOSE + "an array with an unknown codec opens; its values cannot be read",
    ),
    (r"keep_is_o1", "63 bits", PURPOSE + "an array has fewer than 2^63 elements"),
    (
        r"default_endianness|scale_offset.*roundtrip\[>",
        r"'little' == 'big'|dtype\('<[fiu]\d'\) == dtype\('>",
        PURPOSE + "version 3 values are read in the byte order of the machine",
    ),
    (
        r"test_encoded_subchunk_write_order",
        r"assert \[\(0, 0\), \(0, ",
        PURPOSE + "chunks in a shard are stored in the order of their index",
    ),
    # What is kept, replaced and refused
    (
        "",
        r"holds something that is not Zarr",
        PURPOSE + "files that are not Zarr are never deleted",
    ),
    (
        r"test_no_overwrite_(array|group|open)",
        r"assert not True",
        PURPOSE + "files that are not Zarr are never deleted",
    ),
    (
        r"test_no_overwrite_load",
        r"^GroupNotFoundError: there is no array or group",
        PURPOSE + "load creates nothing",
    ),
    (
        r"v2_and_v3_exist_at_same_path",
        r"^ContainsArrayError: there is already a zarr 3 array",
        PURPOSE + "a node of another version at the same path is refused",
    ),
    (
        r"resize_sharded_keeps_cells",
        r"Arrays are not equal",
        PURPOSE + "a write to all elements of a shard clears those beyond the shape",
    ),
    (
        r"use_consolidated_false|stale",
        r"assert 2 == 1",
        PURPOSE + "consolidated metadata are updated when a node is created below them",
    ),
    (
        r"test_create_hierarchy\[.*True",
        r"DID NOT RAISE.*FileNotFoundError",
        PURPOSE + "members of a group without metadata are kept",
    ),
    (
        r"TestZipStore::test_api_integration",
        r"DID NOT RAISE.*NotImplementedError|Duplicate name: 'foo/c/0/0'",
        PURPOSE + "fill values replace a chunk in a store that cannot delete",
    ),
    (
        r"test_(get_|set_)?(basic|orthogonal)_selection_[12]d|doesnt_mix_with_implicit",
        r"DID NOT RAISE.*IndexError",
        MORE + ", such as slices with a negative step",
    ),
    (
        r"test_from_array_overwrite_(overlapping|read_only)_source",
        r"DID NOT RAISE.*ValueError",
        MORE + ": an array is copied before the one in its place is replaced",
    ),
    (
        r"rectilinear_feature_flag|without_flag|raises_for_(nonsharded_)?rectilinear",
        r"DID NOT RAISE.*(ValueError|NotImplementedError)",
        MORE + ": rectilinear chunk grids need no setting",
    ),
    (r"invalid_mixed_zarr_format", r"DID NOT RAISE.*ValueError", MORE),
    (
        r"test_storage_transformers\[3",
        r"DID NOT RAISE.*ValueError",
        MORE + ": storage transformers, which are looked up when values are read",
    ),
    # Words
    ("", rf"Regex pattern did not match.*({_SAID})", WORDS),
)
