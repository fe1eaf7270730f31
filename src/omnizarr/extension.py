"""The door: what annexes may use of the core besides its public names.

Bulk work, conventions, other libraries, the viewer and the command line import from here, from
`omnizarr`, `omnizarr.errors` and `omnizarr.registry`; nothing else of the core is theirs to use.
"""

from typing import TYPE_CHECKING

from omnizarr import registry

if TYPE_CHECKING:
    from omnizarr import chunk_key_encodings as chunk_key_encodings
    from omnizarr import data_types as data_types
    from omnizarr import engine as engine
    from omnizarr import stores as stores
    from omnizarr._json import dumps as dumps
    from omnizarr._json import kind_of as kind_of
    from omnizarr._json import load_object as load_object
    from omnizarr.chunk_grids import Grid as Grid
    from omnizarr.chunk_grids import GridAxis as GridAxis
    from omnizarr.chunk_grids import Integers as Integers
    from omnizarr.chunk_grids import RegularAxis as RegularAxis
    from omnizarr.chunk_key_encodings import ChunkKeyEncoding as ChunkKeyEncoding
    from omnizarr.codecs import CodecPipeline as CodecPipeline
    from omnizarr.codecs import bind_codec as bind_codec
    from omnizarr.codecs.codec import Buffer as Buffer
    from omnizarr.codecs.sharding import Index as Index
    from omnizarr.codecs.sharding import ShardingIndexed as ShardingIndexed
    from omnizarr.codecs.sharding import Shards as Shards
    from omnizarr.codecs.sharding import check_length as check_length
    from omnizarr.codecs.sharding import chunk_range as chunk_range
    from omnizarr.codecs.sharding import present as present
    from omnizarr.codecs.specify import inner_chunk_shape as inner_chunk_shape
    from omnizarr.codecs.specify import kind as kind
    from omnizarr.codecs.specify import memory_order as memory_order
    from omnizarr.codecs.specify import pipeline as pipeline
    from omnizarr.codecs.specify import plain_member as plain_member
    from omnizarr.codecs.specify import to_named as to_named
    from omnizarr.codecs.specify import with_bytes as with_bytes
    from omnizarr.concurrency import file_locks as file_locks
    from omnizarr.concurrency import fork as fork
    from omnizarr.concurrency.executors import On as On
    from omnizarr.concurrency.executors import for_each_on as for_each_on
    from omnizarr.concurrency.executors import runs_in_process as runs_in_process
    from omnizarr.concurrency.executors import tasks_at_once as tasks_at_once
    from omnizarr.concurrency.file_locks import NAME as NAME
    from omnizarr.concurrency.limits import task_of as task_of
    from omnizarr.concurrency.pool import ThreadPool as ThreadPool
    from omnizarr.concurrency.pool import for_each as for_each
    from omnizarr.concurrency.pool import in_parallel as in_parallel
    from omnizarr.concurrency.pool import start_thread as start_thread
    from omnizarr.config import byte_size as byte_size
    from omnizarr.data_types import DataType as DataType
    from omnizarr.data_types import as_type as as_type
    from omnizarr.data_types.cast import cast as cast
    from omnizarr.data_types.cast import is_complex_pair as is_complex_pair
    from omnizarr.data_types.cast import is_masked_array as is_masked_array
    from omnizarr.data_types.data_type import as_plain as as_plain
    from omnizarr.data_types.data_type import old as old
    from omnizarr.engine import BoundArray as BoundArray
    from omnizarr.engine import chunk_context as chunk_context
    from omnizarr.engine import kernel as kernel
    from omnizarr.engine.kernel import empty as empty
    from omnizarr.engine.missing_chunks import FilledParts as FilledParts
    from omnizarr.formats import Documents as Documents
    from omnizarr.formats import Format as Format
    from omnizarr.formats import Probe as Probe
    from omnizarr.formats import by_name as by_name
    from omnizarr.formats import consolidated as consolidated
    from omnizarr.formats import is_metadata as is_metadata
    from omnizarr.formats import makes_node as makes_node
    from omnizarr.formats import title as title
    from omnizarr.formats import unchecked_attributes as unchecked_attributes
    from omnizarr.formats.codec_names import N5_BLOCKS as N5_BLOCKS
    from omnizarr.formats.codec_names import split_compressor as split_compressor
    from omnizarr.formats.codec_names import to_ids as to_ids
    from omnizarr.formats.codec_names import to_names as to_names
    from omnizarr.formats.codec_names import without_checksums as without_checksums
    from omnizarr.formats.detect import NAMES as NAMES
    from omnizarr.formats.draft.extensions import packed_shard_shape as packed_shard_shape
    from omnizarr.formats.format import ARRAY_DIMENSIONS as ARRAY_DIMENSIONS
    from omnizarr.formats.format import is_nczarr as is_nczarr
    from omnizarr.formats.format import without_duplicate_names as without_duplicate_names
    from omnizarr.formats.format import without_invalid_names as without_invalid_names
    from omnizarr.formats.sections import section_of as section_of
    from omnizarr.hierarchy import info as info
    from omnizarr.hierarchy.array import CODEC_OPTIONS as CODEC_OPTIONS
    from omnizarr.hierarchy.array import bound_array as bound_array
    from omnizarr.hierarchy.array import options_like as options_like
    from omnizarr.hierarchy.array import unpublished as unpublished
    from omnizarr.hierarchy.attributes import lock_shape as lock_shape
    from omnizarr.hierarchy.attributes import update_metadata as update_metadata
    from omnizarr.hierarchy.build import Build as Build
    from omnizarr.hierarchy.build import begin_deferred as begin_deferred
    from omnizarr.hierarchy.build import begin_stage as begin_stage
    from omnizarr.hierarchy.build import build as build
    from omnizarr.hierarchy.build import check_new as check_new
    from omnizarr.hierarchy.build import make_array as make_array
    from omnizarr.hierarchy.build import update_consolidated_above as update_consolidated_above
    from omnizarr.hierarchy.chunk_shapes import SHARD_BYTES as SHARD_BYTES
    from omnizarr.hierarchy.chunk_shapes import TARGET_BYTES as TARGET_BYTES
    from omnizarr.hierarchy.chunk_shapes import chunk_grid as chunk_grid
    from omnizarr.hierarchy.chunk_shapes import guess_chunks as guess_chunks
    from omnizarr.hierarchy.chunk_shapes import halve as halve
    from omnizarr.hierarchy.chunk_shapes import item_bytes as item_bytes
    from omnizarr.hierarchy.chunk_shapes import shard_options as shard_options
    from omnizarr.hierarchy.chunk_shapes import shard_shape as shard_shape
    from omnizarr.hierarchy.chunks import check_encoded_chunk as check_encoded_chunk
    from omnizarr.hierarchy.chunks import chunk_counts as chunk_counts
    from omnizarr.hierarchy.chunks import decoded_size as decoded_size
    from omnizarr.hierarchy.chunks import encoded_chunk as encoded_chunk
    from omnizarr.hierarchy.chunks import missing_chunk_keys as missing_chunk_keys
    from omnizarr.hierarchy.chunks import present_chunks as present_chunks
    from omnizarr.hierarchy.chunks import probe_stored_keys as probe_stored_keys
    from omnizarr.hierarchy.chunks import stored_chunks as stored_chunks
    from omnizarr.hierarchy.chunks import stored_keys as stored_keys
    from omnizarr.hierarchy.chunks import with_shape as with_shape
    from omnizarr.hierarchy.consolidated import mark_changed as mark_changed
    from omnizarr.hierarchy.create import new_location as new_location
    from omnizarr.hierarchy.group import make_group as make_group
    from omnizarr.hierarchy.group import open_node as open_node
    from omnizarr.hierarchy.info import Info as Info
    from omnizarr.hierarchy.info import attributes_section as attributes_section
    from omnizarr.hierarchy.info import card as card
    from omnizarr.hierarchy.info import codec_names as codec_names
    from omnizarr.hierarchy.info import counted as counted
    from omnizarr.hierarchy.info import decoded_bytes as decoded_bytes
    from omnizarr.hierarchy.info import grid_lengths as grid_lengths
    from omnizarr.hierarchy.info import grid_text as grid_text
    from omnizarr.hierarchy.info import number_text as number_text
    from omnizarr.hierarchy.info import preformatted as preformatted
    from omnizarr.hierarchy.info import report_card as report_card
    from omnizarr.hierarchy.info import size_text as size_text
    from omnizarr.hierarchy.info import stored_text as stored_text
    from omnizarr.hierarchy.info import type_name as type_name
    from omnizarr.hierarchy.info import value_text as value_text
    from omnizarr.hierarchy.location import Location as Location
    from omnizarr.hierarchy.location import default_separator as default_separator
    from omnizarr.hierarchy.location import existing_node as existing_node
    from omnizarr.hierarchy.location import node_extent as node_extent
    from omnizarr.hierarchy.lookup import all_formats as all_formats
    from omnizarr.hierarchy.lookup import check_erasable as check_erasable
    from omnizarr.hierarchy.lookup import check_node_writable as check_node_writable
    from omnizarr.hierarchy.lookup import fetch_probe as fetch_probe
    from omnizarr.hierarchy.lookup import find_node as find_node
    from omnizarr.hierarchy.lookup import format_for as format_for
    from omnizarr.hierarchy.lookup import has_store_path as has_store_path
    from omnizarr.hierarchy.lookup import hierarchies_above as hierarchies_above
    from omnizarr.hierarchy.lookup import is_hierarchy as is_hierarchy
    from omnizarr.hierarchy.lookup import is_link as is_link
    from omnizarr.hierarchy.lookup import list_folder as list_folder
    from omnizarr.hierarchy.lookup import readable_nodes as readable_nodes
    from omnizarr.hierarchy.lookup import require_readable_nodes as require_readable_nodes
    from omnizarr.hierarchy.lookup import resolve_root as resolve_root
    from omnizarr.hierarchy.lookup import resolve_store_path as resolve_store_path
    from omnizarr.hierarchy.lookup import walk_nodes as walk_nodes
    from omnizarr.hierarchy.node import location_of as location_of
    from omnizarr.hierarchy.open import consolidated_is_stale as consolidated_is_stale
    from omnizarr.hierarchy.open import open_group as open_group
    from omnizarr.hierarchy.options import DEFAULT_FILL as DEFAULT_FILL
    from omnizarr.hierarchy.options import ArrayOptions as ArrayOptions
    from omnizarr.hierarchy.options import CreateOptions as CreateOptions
    from omnizarr.hierarchy.options import array_model as array_model
    from omnizarr.hierarchy.options import check_separator as check_separator
    from omnizarr.hierarchy.options import default_codecs as default_codecs
    from omnizarr.hierarchy.options import document_options as document_options
    from omnizarr.hierarchy.options import key_encoding as key_encoding
    from omnizarr.hierarchy.options import lengths_of as lengths_of
    from omnizarr.hierarchy.options import named_codecs as named_codecs
    from omnizarr.hierarchy.selection import Shaped as Shaped
    from omnizarr.hierarchy.selection import as_source as as_source
    from omnizarr.hierarchy.validate import CheckedNode as CheckedNode
    from omnizarr.hierarchy.validate import check_consolidated as check_consolidated
    from omnizarr.hierarchy.validate import walk_checked as walk_checked
    from omnizarr.indexing import AxisSelection as AxisSelection
    from omnizarr.indexing import axis_plan as axis_plan
    from omnizarr.indexing import boxes as boxes
    from omnizarr.indexing import everything as everything
    from omnizarr.indexing.boxes import Boxes as Boxes
    from omnizarr.indexing.boxes import Cuts as Cuts
    from omnizarr.indexing.plan import Row as Row
    from omnizarr.indexing.selection import plan as plan
    from omnizarr.model import ArrayModel as ArrayModel
    from omnizarr.model import FillValue as FillValue
    from omnizarr.model import GroupModel as GroupModel
    from omnizarr.model import Named as Named
    from omnizarr.model import Node as Node
    from omnizarr.model import paths as paths
    from omnizarr.model.node import CHECKSUMS as CHECKSUMS
    from omnizarr.model.node import OBJECT_CODECS as OBJECT_CODECS
    from omnizarr.model.node import PREFIX as PREFIX
    from omnizarr.model.paths import is_ours as is_ours
    from omnizarr.model.patterns import Patterns as Patterns
    from omnizarr.publish import publication as publication
    from omnizarr.publish.mark import INTERMEDIATE as INTERMEDIATE
    from omnizarr.publish.mark import JOURNAL as JOURNAL
    from omnizarr.publish.mark import MARKER as MARKER
    from omnizarr.publish.mark import Kind as Kind
    from omnizarr.publish.mark import Mark as Mark
    from omnizarr.publish.mark import is_running as is_running
    from omnizarr.publish.mark import marker as marker
    from omnizarr.publish.publication import Begun as Begun
    from omnizarr.publish.publication import Part as Part
    from omnizarr.publish.publication import Publication as Publication
    from omnizarr.publish.stage import FOLDER as FOLDER
    from omnizarr.publish.stage import PLAN as PLAN
    from omnizarr.publish.stage import Extent as Extent
    from omnizarr.publish.stage import check_whole as check_whole
    from omnizarr.publish.stage import interrupted as interrupted
    from omnizarr.publish.stage import lock_replacement as lock_replacement
    from omnizarr.publish.stage import recover_interrupted as recover_interrupted
    from omnizarr.publish.stage import replaced as replaced
    from omnizarr.publish.stage import stage as stage
    from omnizarr.storage_transformers import stored_key as stored_key
    from omnizarr.storage_transformers.sharding import IndexedShards as IndexedShards
    from omnizarr.stores import Entry as Entry
    from omnizarr.stores import LocalStore as LocalStore
    from omnizarr.stores import MemoryStore as MemoryStore
    from omnizarr.stores import PrefixStore as PrefixStore
    from omnizarr.stores import Range as Range
    from omnizarr.stores import Store as Store
    from omnizarr.stores import Versioned as Versioned
    from omnizarr.stores import can_list as can_list
    from omnizarr.stores import check_disjoint as check_disjoint
    from omnizarr.stores import check_writable as check_writable
    from omnizarr.stores import commits_changes as commits_changes
    from omnizarr.stores import direct_file_root as direct_file_root
    from omnizarr.stores import direct_values as direct_values
    from omnizarr.stores import erase_prefix as erase_prefix
    from omnizarr.stores import erase_values as erase_values
    from omnizarr.stores import file_root as file_root
    from omnizarr.stores import get_existing as get_existing
    from omnizarr.stores import get_many as get_many
    from omnizarr.stores import has_cheap_requests as has_cheap_requests
    from omnizarr.stores import has_low_latency as has_low_latency
    from omnizarr.stores import is_process_local as is_process_local
    from omnizarr.stores import leases as leases
    from omnizarr.stores import list_dir as list_dir
    from omnizarr.stores import list_entries as list_entries
    from omnizarr.stores import list_prefix as list_prefix
    from omnizarr.stores import list_sizes as list_sizes
    from omnizarr.stores import overlap as overlap
    from omnizarr.stores import set_many as set_many
    from omnizarr.stores import set_new as set_new
    from omnizarr.stores import sizes as sizes
    from omnizarr.stores import storage_identity as storage_identity
    from omnizarr.stores import supports_compare_and_set as supports_compare_and_set
    from omnizarr.stores.base import Bytes as Bytes
    from omnizarr.stores.base import Closeable as Closeable
    from omnizarr.stores.base import CompareAndSetStore as CompareAndSetStore
    from omnizarr.stores.base import EnclosesFiles as EnclosesFiles
    from omnizarr.stores.base import HasSizes as HasSizes
    from omnizarr.stores.base import LeadsOutside as LeadsOutside
    from omnizarr.stores.base import LinksFiles as LinksFiles
    from omnizarr.stores.base import ListsEntries as ListsEntries
    from omnizarr.stores.base import OpensValues as OpensValues
    from omnizarr.stores.base import OpenValue as OpenValue
    from omnizarr.stores.base import absolute_path as absolute_path
    from omnizarr.stores.base import redact_urls as redact_urls
    from omnizarr.stores.base import split_path as split_path
    from omnizarr.stores.base import traits as traits
    from omnizarr.stores.base import value_digest as value_digest
    from omnizarr.stores.byte_ranges import coalesce as coalesce
    from omnizarr.stores.identity import HasIdentity as HasIdentity
    from omnizarr.stores.identity import StorageIdentity as StorageIdentity
    from omnizarr.stores.identity import directory as directory
    from omnizarr.stores.identity import inside as inside
    from omnizarr.stores.identity import key_digest as key_digest
    from omnizarr.stores.identity import portable_key as portable_key
    from omnizarr.stores.identity import unique_key as unique_key
    from omnizarr.stores.local.atomic_files import PARTIAL as PARTIAL
    from omnizarr.stores.local.atomic_files import replace_file as replace_file
    from omnizarr.stores.operations import check_key as check_key
    from omnizarr.stores.operations import check_prefix as check_prefix
    from omnizarr.stores.operations import one_level as one_level
    from omnizarr.stores.resolve import is_archive as is_archive
    from omnizarr.stores.resolve import options_for_two as options_for_two
    from omnizarr.stores.resolve import resolve as resolve
    from omnizarr.stores.transfer import MissingValue as MissingValue
    from omnizarr.stores.transfer import ValueCopy as ValueCopy
    from omnizarr.stores.transfer import is_quick as is_quick
    from omnizarr.stores.transfer import read_parts as read_parts
    from omnizarr.stores.wrappers import WrapperStore as WrapperStore

# Imported on first use, so that a command loads what it needs only; a test compares the two.
_LATER = {
    "chunk_key_encodings": "chunk_key_encodings",
    "data_types": "data_types",
    "engine": "engine",
    "INTERMEDIATE": "publish.mark:INTERMEDIATE",
    "JOURNAL": "publish.mark:JOURNAL",
    "MARKER": "publish.mark:MARKER",
    "Kind": "publish.mark:Kind",
    "Mark": "publish.mark:Mark",
    "is_running": "publish.mark:is_running",
    "marker": "publish.mark:marker",
    "FOLDER": "publish.stage:FOLDER",
    "PLAN": "publish.stage:PLAN",
    "Extent": "publish.stage:Extent",
    "check_whole": "publish.stage:check_whole",
    "interrupted": "publish.stage:interrupted",
    "recover_interrupted": "publish.stage:recover_interrupted",
    "replaced": "publish.stage:replaced",
    "stage": "publish.stage:stage",
    "lock_replacement": "publish.stage:lock_replacement",
    "publication": "publish.publication",
    "Begun": "publish.publication:Begun",
    "Part": "publish.publication:Part",
    "Publication": "publish.publication:Publication",
    "stores": "stores",
    "dumps": "_json:dumps",
    "kind_of": "_json:kind_of",
    "load_object": "_json:load_object",
    "GridAxis": "chunk_grids:GridAxis",
    "Grid": "chunk_grids:Grid",
    "Integers": "chunk_grids:Integers",
    "RegularAxis": "chunk_grids:RegularAxis",
    "ChunkKeyEncoding": "chunk_key_encodings:ChunkKeyEncoding",
    "CodecPipeline": "codecs:CodecPipeline",
    "bind_codec": "codecs:bind_codec",
    "Buffer": "codecs.codec:Buffer",
    "Index": "codecs.sharding:Index",
    "ShardingIndexed": "codecs.sharding:ShardingIndexed",
    "Shards": "codecs.sharding:Shards",
    "check_length": "codecs.sharding:check_length",
    "chunk_range": "codecs.sharding:chunk_range",
    "present": "codecs.sharding:present",
    "inner_chunk_shape": "codecs.specify:inner_chunk_shape",
    "kind": "codecs.specify:kind",
    "memory_order": "codecs.specify:memory_order",
    "pipeline": "codecs.specify:pipeline",
    "plain_member": "codecs.specify:plain_member",
    "to_named": "codecs.specify:to_named",
    "with_bytes": "codecs.specify:with_bytes",
    "file_locks": "concurrency.file_locks",
    "fork": "concurrency.fork",
    "On": "concurrency.executors:On",
    "for_each_on": "concurrency.executors:for_each_on",
    "runs_in_process": "concurrency.executors:runs_in_process",
    "tasks_at_once": "concurrency.executors:tasks_at_once",
    "NAME": "concurrency.file_locks:NAME",
    "task_of": "concurrency.limits:task_of",
    "ThreadPool": "concurrency.pool:ThreadPool",
    "for_each": "concurrency.pool:for_each",
    "in_parallel": "concurrency.pool:in_parallel",
    "start_thread": "concurrency.pool:start_thread",
    "byte_size": "config:byte_size",
    "DataType": "data_types:DataType",
    "as_type": "data_types:as_type",
    "cast": "data_types.cast:cast",
    "is_complex_pair": "data_types.cast:is_complex_pair",
    "is_masked_array": "data_types.cast:is_masked_array",
    "as_plain": "data_types.data_type:as_plain",
    "old": "data_types.data_type:old",
    "BoundArray": "engine:BoundArray",
    "chunk_context": "engine:chunk_context",
    "kernel": "engine.kernel",
    "empty": "engine.kernel:empty",
    "FilledParts": "engine.missing_chunks:FilledParts",
    "Documents": "formats:Documents",
    "Format": "formats:Format",
    "Probe": "formats:Probe",
    "by_name": "formats:by_name",
    "consolidated": "formats.consolidated",
    "is_metadata": "formats:is_metadata",
    "makes_node": "formats:makes_node",
    "title": "formats:title",
    "unchecked_attributes": "formats:unchecked_attributes",
    "N5_BLOCKS": "formats.codec_names:N5_BLOCKS",
    "split_compressor": "formats.codec_names:split_compressor",
    "to_ids": "formats.codec_names:to_ids",
    "to_names": "formats.codec_names:to_names",
    "without_checksums": "formats.codec_names:without_checksums",
    "NAMES": "formats.detect:NAMES",
    "packed_shard_shape": "formats.draft.extensions:packed_shard_shape",
    "ARRAY_DIMENSIONS": "formats.format:ARRAY_DIMENSIONS",
    "is_nczarr": "formats.format:is_nczarr",
    "without_duplicate_names": "formats.format:without_duplicate_names",
    "without_invalid_names": "formats.format:without_invalid_names",
    "section_of": "formats.sections:section_of",
    "info": "hierarchy.info",
    "CODEC_OPTIONS": "hierarchy.array:CODEC_OPTIONS",
    "bound_array": "hierarchy.array:bound_array",
    "options_like": "hierarchy.array:options_like",
    "unpublished": "hierarchy.array:unpublished",
    "lock_shape": "hierarchy.attributes:lock_shape",
    "update_metadata": "hierarchy.attributes:update_metadata",
    "Build": "hierarchy.build:Build",
    "begin_deferred": "hierarchy.build:begin_deferred",
    "begin_stage": "hierarchy.build:begin_stage",
    "build": "hierarchy.build:build",
    "check_new": "hierarchy.build:check_new",
    "make_array": "hierarchy.build:make_array",
    "update_consolidated_above": "hierarchy.build:update_consolidated_above",
    "SHARD_BYTES": "hierarchy.chunk_shapes:SHARD_BYTES",
    "TARGET_BYTES": "hierarchy.chunk_shapes:TARGET_BYTES",
    "chunk_grid": "hierarchy.chunk_shapes:chunk_grid",
    "guess_chunks": "hierarchy.chunk_shapes:guess_chunks",
    "halve": "hierarchy.chunk_shapes:halve",
    "item_bytes": "hierarchy.chunk_shapes:item_bytes",
    "shard_options": "hierarchy.chunk_shapes:shard_options",
    "shard_shape": "hierarchy.chunk_shapes:shard_shape",
    "check_encoded_chunk": "hierarchy.chunks:check_encoded_chunk",
    "chunk_counts": "hierarchy.chunks:chunk_counts",
    "decoded_size": "hierarchy.chunks:decoded_size",
    "encoded_chunk": "hierarchy.chunks:encoded_chunk",
    "missing_chunk_keys": "hierarchy.chunks:missing_chunk_keys",
    "present_chunks": "hierarchy.chunks:present_chunks",
    "probe_stored_keys": "hierarchy.chunks:probe_stored_keys",
    "stored_chunks": "hierarchy.chunks:stored_chunks",
    "stored_keys": "hierarchy.chunks:stored_keys",
    "with_shape": "hierarchy.chunks:with_shape",
    "mark_changed": "hierarchy.consolidated:mark_changed",
    "new_location": "hierarchy.create:new_location",
    "make_group": "hierarchy.group:make_group",
    "open_node": "hierarchy.group:open_node",
    "Info": "hierarchy.info:Info",
    "attributes_section": "hierarchy.info:attributes_section",
    "card": "hierarchy.info:card",
    "codec_names": "hierarchy.info:codec_names",
    "counted": "hierarchy.info:counted",
    "decoded_bytes": "hierarchy.info:decoded_bytes",
    "grid_lengths": "hierarchy.info:grid_lengths",
    "grid_text": "hierarchy.info:grid_text",
    "number_text": "hierarchy.info:number_text",
    "preformatted": "hierarchy.info:preformatted",
    "report_card": "hierarchy.info:report_card",
    "size_text": "hierarchy.info:size_text",
    "stored_text": "hierarchy.info:stored_text",
    "type_name": "hierarchy.info:type_name",
    "value_text": "hierarchy.info:value_text",
    "Location": "hierarchy.location:Location",
    "default_separator": "hierarchy.location:default_separator",
    "existing_node": "hierarchy.location:existing_node",
    "node_extent": "hierarchy.location:node_extent",
    "all_formats": "hierarchy.lookup:all_formats",
    "check_erasable": "hierarchy.lookup:check_erasable",
    "check_node_writable": "hierarchy.lookup:check_node_writable",
    "fetch_probe": "hierarchy.lookup:fetch_probe",
    "find_node": "hierarchy.lookup:find_node",
    "format_for": "hierarchy.lookup:format_for",
    "has_store_path": "hierarchy.lookup:has_store_path",
    "hierarchies_above": "hierarchy.lookup:hierarchies_above",
    "is_hierarchy": "hierarchy.lookup:is_hierarchy",
    "is_link": "hierarchy.lookup:is_link",
    "list_folder": "hierarchy.lookup:list_folder",
    "readable_nodes": "hierarchy.lookup:readable_nodes",
    "require_readable_nodes": "hierarchy.lookup:require_readable_nodes",
    "resolve_root": "hierarchy.lookup:resolve_root",
    "resolve_store_path": "hierarchy.lookup:resolve_store_path",
    "walk_nodes": "hierarchy.lookup:walk_nodes",
    "location_of": "hierarchy.node:location_of",
    "consolidated_is_stale": "hierarchy.open:consolidated_is_stale",
    "open_group": "hierarchy.open:open_group",
    "DEFAULT_FILL": "hierarchy.options:DEFAULT_FILL",
    "ArrayOptions": "hierarchy.options:ArrayOptions",
    "CreateOptions": "hierarchy.options:CreateOptions",
    "array_model": "hierarchy.options:array_model",
    "check_separator": "hierarchy.options:check_separator",
    "default_codecs": "hierarchy.options:default_codecs",
    "document_options": "hierarchy.options:document_options",
    "key_encoding": "hierarchy.options:key_encoding",
    "lengths_of": "hierarchy.options:lengths_of",
    "named_codecs": "hierarchy.options:named_codecs",
    "Shaped": "hierarchy.selection:Shaped",
    "as_source": "hierarchy.selection:as_source",
    "CheckedNode": "hierarchy.validate:CheckedNode",
    "check_consolidated": "hierarchy.validate:check_consolidated",
    "walk_checked": "hierarchy.validate:walk_checked",
    "AxisSelection": "indexing:AxisSelection",
    "axis_plan": "indexing:axis_plan",
    "boxes": "indexing.boxes",
    "Boxes": "indexing.boxes:Boxes",
    "Cuts": "indexing.boxes:Cuts",
    "everything": "indexing:everything",
    "plan": "indexing.selection:plan",
    "Row": "indexing.plan:Row",
    "ArrayModel": "model:ArrayModel",
    "FillValue": "model:FillValue",
    "GroupModel": "model:GroupModel",
    "Named": "model:Named",
    "Node": "model:Node",
    "paths": "model.paths",
    "CHECKSUMS": "model.node:CHECKSUMS",
    "OBJECT_CODECS": "model.node:OBJECT_CODECS",
    "PREFIX": "model.node:PREFIX",
    "is_ours": "model.paths:is_ours",
    "Patterns": "model.patterns:Patterns",
    "stored_key": "storage_transformers:stored_key",
    "IndexedShards": "storage_transformers.sharding:IndexedShards",
    "Entry": "stores:Entry",
    "LocalStore": "stores:LocalStore",
    "MemoryStore": "stores:MemoryStore",
    "PrefixStore": "stores:PrefixStore",
    "Range": "stores:Range",
    "Store": "stores:Store",
    "Versioned": "stores:Versioned",
    "can_list": "stores:can_list",
    "check_disjoint": "stores:check_disjoint",
    "check_writable": "stores:check_writable",
    "commits_changes": "stores:commits_changes",
    "direct_file_root": "stores:direct_file_root",
    "direct_values": "stores:direct_values",
    "erase_prefix": "stores:erase_prefix",
    "erase_values": "stores:erase_values",
    "file_root": "stores:file_root",
    "get_existing": "stores:get_existing",
    "get_many": "stores:get_many",
    "has_cheap_requests": "stores:has_cheap_requests",
    "has_low_latency": "stores:has_low_latency",
    "is_process_local": "stores:is_process_local",
    "leases": "stores.leases",
    "list_dir": "stores:list_dir",
    "list_entries": "stores:list_entries",
    "list_prefix": "stores:list_prefix",
    "list_sizes": "stores:list_sizes",
    "overlap": "stores:overlap",
    "resolve": "stores.resolve:resolve",
    "set_many": "stores:set_many",
    "set_new": "stores:set_new",
    "sizes": "stores:sizes",
    "storage_identity": "stores:storage_identity",
    "supports_compare_and_set": "stores:supports_compare_and_set",
    "Bytes": "stores.base:Bytes",
    "Closeable": "stores.base:Closeable",
    "EnclosesFiles": "stores.base:EnclosesFiles",
    "HasSizes": "stores.base:HasSizes",
    "LeadsOutside": "stores.base:LeadsOutside",
    "LinksFiles": "stores.base:LinksFiles",
    "ListsEntries": "stores.base:ListsEntries",
    "OpensValues": "stores.base:OpensValues",
    "OpenValue": "stores.base:OpenValue",
    "absolute_path": "stores.base:absolute_path",
    "redact_urls": "stores.base:redact_urls",
    "split_path": "stores.base:split_path",
    "traits": "stores.base:traits",
    "value_digest": "stores.base:value_digest",
    "coalesce": "stores.byte_ranges:coalesce",
    "HasIdentity": "stores.identity:HasIdentity",
    "StorageIdentity": "stores.identity:StorageIdentity",
    "directory": "stores.identity:directory",
    "inside": "stores.identity:inside",
    "key_digest": "stores.identity:key_digest",
    "portable_key": "stores.identity:portable_key",
    "unique_key": "stores.identity:unique_key",
    "PARTIAL": "stores.local.atomic_files:PARTIAL",
    "replace_file": "stores.local.atomic_files:replace_file",
    "CompareAndSetStore": "stores.base:CompareAndSetStore",
    "check_key": "stores.operations:check_key",
    "check_prefix": "stores.operations:check_prefix",
    "one_level": "stores.operations:one_level",
    "is_archive": "stores.resolve:is_archive",
    "options_for_two": "stores.resolve:options_for_two",
    "MissingValue": "stores.transfer:MissingValue",
    "ValueCopy": "stores.transfer:ValueCopy",
    "is_quick": "stores.transfer:is_quick",
    "read_parts": "stores.transfer:read_parts",
    "WrapperStore": "stores.wrappers:WrapperStore",
}

if not TYPE_CHECKING:  # for which any name would be one of the module's
    __getattr__ = registry.attributes(__name__, _LATER)
