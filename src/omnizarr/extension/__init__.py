"""The door: what annexes may use of the core besides its public names.

Bulk work, conventions, other libraries, the viewer and the command line import from here, from
`omnizarr`, `omnizarr.errors` and `omnizarr.registry`; nothing else of the core is theirs to use.
The names in `arrays` are found here, too, and imported on first use: NumPy is slow to import.
"""

import importlib
from typing import TYPE_CHECKING, Any

from omnizarr import chunk_key_encodings, formats, stores
from omnizarr._json import dumps, keep_bare_nan, kind_of
from omnizarr.codecs import specify
from omnizarr.codecs.specify import inner_chunk_shape, memory_order
from omnizarr.concurrency import cache, file_locks, fork, key_locks
from omnizarr.concurrency.executors import On, for_each_on, runs_in_process, tasks_at_once
from omnizarr.concurrency.pool import ThreadPool, for_each, in_parallel, start_thread, task_of
from omnizarr.config import byte_size
from omnizarr.formats import Documents, Format, Probe, by_name, consolidated, is_metadata, title
from omnizarr.formats.codec_names import without_checksums
from omnizarr.formats.detect import NAMES
from omnizarr.formats.draft_extensions import packed_shard_shape
from omnizarr.formats.format import ARRAY_DIMENSIONS, is_nczarr, section_of, without_duplicate_names
from omnizarr.hierarchy import info, lookup
from omnizarr.hierarchy.attributes import Attributes, lock_shape
from omnizarr.hierarchy.consolidated import mark_changed
from omnizarr.hierarchy.info import Info, counted, size_text, type_name, value_text
from omnizarr.hierarchy.location import Location, existing_node
from omnizarr.hierarchy.lookup import check_node_writable, find_node, resolve_store_path, walk_nodes
from omnizarr.hierarchy.node import location_of, model_of, node_from_description
from omnizarr.model import ArrayModel, FillValue, GroupModel, Named, Node, paths
from omnizarr.model.node import CHECKSUMS, PREFIX
from omnizarr.model.paths import Patterns, is_ours
from omnizarr.publish import publication, stage
from omnizarr.publish.publication import Begun, Part, Publication, all_stages, check_whole
from omnizarr.publish.stage import Extent, Kind, Mark, Stage, marker
from omnizarr.stores import Entry, LocalStore, MemoryStore, Range, Store, base, can_list, leases
from omnizarr.stores.base import EnclosesFiles, LeadsOutside, redact_urls, traits, value_digest
from omnizarr.stores.identity import StorageIdentity, key_digest, portable_key, unique_key
from omnizarr.stores.local.atomic_files import PARTIAL, replace_file
from omnizarr.stores.operations import check_key, check_prefix
from omnizarr.stores.resolve import is_archive, options_for_two, resolve
from omnizarr.stores.transfer import ValueCopy, is_quick
from omnizarr.stores.wrappers import PrefixStore

if TYPE_CHECKING:
    from omnizarr.extension.arrays import *
else:

    def __getattr__(name: str) -> Any:
        found = globals()[name] = getattr(importlib.import_module(f"{__name__}.arrays"), name)
        return found
