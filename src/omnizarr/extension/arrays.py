"""The names of the door whose modules need NumPy."""

from omnizarr import data_types, engine
from omnizarr.chunk_grids import Grid, GridAxis, Integers, RegularAxis
from omnizarr.codecs import CodecPipeline, bind_codec
from omnizarr.codecs.codec import Buffer
from omnizarr.codecs.sharding import ShardingIndexed, Shards, check_length, chunk_range, present
from omnizarr.data_types import as_type
from omnizarr.data_types.cast import cast, is_complex_pair, is_masked_array
from omnizarr.data_types.data_type import as_plain, item_bytes, old
from omnizarr.engine import BoundArray, kernel
from omnizarr.engine.kernel import empty
from omnizarr.hierarchy.array import bound_array, change_shape, unpublished, use_location
from omnizarr.hierarchy.build import (
    Build,
    begin_deferred,
    begin_stage,
    build,
    check_new,
    create_node,
    store_array,
    update_consolidated_above,
)
from omnizarr.hierarchy.chunk_shapes import (
    SHARD_BYTES,
    TARGET_BYTES,
    chunk_grid,
    guess_chunks,
    shard_options,
    shard_shape,
    stored_bytes,
)
from omnizarr.hierarchy.chunks import (
    check_encoded_chunk,
    chunk_counts,
    decoded_size,
    missing_chunk_keys,
    probe_stored_keys,
    stored_chunks,
    stored_keys,
    with_shape,
)
from omnizarr.hierarchy.create import new_location, options_like
from omnizarr.hierarchy.group import make_group, open_node
from omnizarr.hierarchy.open import consolidated_is_stale
from omnizarr.hierarchy.options import (
    DEFAULT_FILL,
    ArrayOptions,
    CreateOptions,
    array_model,
    default_codecs,
    document_options,
    key_encoding,
    lengths_of,
    named_codecs,
)
from omnizarr.hierarchy.selection import Shaped, as_source
from omnizarr.hierarchy.validate import CheckedNode, check_consolidated, walk_checked
from omnizarr.indexing import axis_plan, boxes
from omnizarr.indexing.boxes import Boxes, Cuts
from omnizarr.indexing.plan import Row
from omnizarr.indexing.selection import plan
from omnizarr.storage_transformers.sharding import IndexedShards
