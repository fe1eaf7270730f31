"""Every Zarr ever written, in one library.

>>> import omnizarr as oz
>>> a = oz.create_array("ocean.zarr", shape=(365, 720, 1440), dtype="f4")
>>> oz.open("ocean.zarr")[0].shape
(720, 1440)
"""

import typing as _typing

from omnizarr import config, errors
from omnizarr import registry as _registry
from omnizarr.config import VERSION as __version__
from omnizarr.config import configure
from omnizarr.errors import (
    CannotExpress,
    ChunkError,
    Conflict,
    InvalidArgument,
    InvalidMetadata,
    InvalidName,
    MissingChunk,
    MissingPackage,
    NodeChanged,
    NodeExists,
    NodeNotFound,
    NoSuchLabel,
    OmnizarrError,
    OmnizarrWarning,
    Problem,
    ReadOnly,
    SelectionError,
    StoreError,
    TargetError,
    UnknownExtension,
    WrongNode,
    WrongType,
)
from omnizarr.registry import register

if _typing.TYPE_CHECKING:
    from omnizarr import aio, cf, codecs, geo, jobs, ome, storage, xarray, zarr
    from omnizarr.as_zarr import as_zarr
    from omnizarr.bulk.analysis.diff import diff
    from omnizarr.bulk.analysis.stats import stats
    from omnizarr.bulk.analysis.suggestion import suggest_chunks
    from omnizarr.bulk.analysis.usage import disk_usage
    from omnizarr.bulk.batches import batches
    from omnizarr.bulk.convert import convert
    from omnizarr.bulk.copy import copy
    from omnizarr.bulk.in_place import undo_conversion
    from omnizarr.bulk.job import run
    from omnizarr.bulk.rechunk.job import rechunk
    from omnizarr.bulk.repair import repair
    from omnizarr.bulk.verify import verify
    from omnizarr.bulk.view_as.store import view_as
    from omnizarr.config import show_versions
    from omnizarr.conventions.ome.pyramid import pyramid
    from omnizarr.hierarchy.array import Array
    from omnizarr.hierarchy.create import (
        create_array,
        create_group,
        create_hierarchy,
        save,
    )
    from omnizarr.hierarchy.group import Group
    from omnizarr.hierarchy.open import (
        consolidate_metadata,
        load,
        open,
    )
    from omnizarr.hierarchy.validate import validate
    from omnizarr.hierarchy.view import View
    from omnizarr.interop.dask import from_dask
    from omnizarr.interop.files.exporting import export_file
    from omnizarr.interop.files.importing import import_file
    from omnizarr.viewer.picture import preview
    from omnizarr.viewer.server import serve, serving

__all__ = [  # noqa: RUF022 - the version last
    "Array",
    "CannotExpress",
    "ChunkError",
    "Conflict",
    "Group",
    "InvalidArgument",
    "InvalidMetadata",
    "InvalidName",
    "MissingChunk",
    "MissingPackage",
    "NoSuchLabel",
    "NodeChanged",
    "NodeExists",
    "NodeNotFound",
    "OmnizarrError",
    "OmnizarrWarning",
    "Problem",
    "ReadOnly",
    "SelectionError",
    "StoreError",
    "TargetError",
    "UnknownExtension",
    "View",
    "WrongNode",
    "WrongType",
    "aio",
    "as_zarr",
    "batches",
    "cf",
    "codecs",
    "config",
    "configure",
    "consolidate_metadata",
    "convert",
    "copy",
    "create_array",
    "create_group",
    "create_hierarchy",
    "diff",
    "disk_usage",
    "errors",
    "export_file",
    "from_dask",
    "geo",
    "import_file",
    "jobs",
    "load",
    "ome",
    "open",
    "preview",
    "pyramid",
    "rechunk",
    "register",
    "repair",
    "run",
    "save",
    "serve",
    "serving",
    "show_versions",
    "stats",
    "storage",
    "suggest_chunks",
    "undo_conversion",
    "validate",
    "verify",
    "view_as",
    "xarray",
    "zarr",
    "__version__",
]


# Loaded on first use, so that importing the package stays quick.
_LATER = {
    "codecs": "codecs",
    "Array": "hierarchy.array:Array",
    "Group": "hierarchy.group:Group",
    "create_array": "hierarchy.create:create_array",
    "create_group": "hierarchy.create:create_group",
    "open": "hierarchy.open:open",
    "storage": "storage",
    "consolidate_metadata": "hierarchy.open:consolidate_metadata",
    "aio": "aio",
    "as_zarr": "as_zarr",
    "batches": "bulk.batches:batches",
    "View": "hierarchy.view:View",
    "convert": "bulk.convert:convert",
    "cf": "cf",
    "geo": "geo",
    "ome": "ome",
    "copy": "bulk.copy:copy",
    "create_hierarchy": "hierarchy.create:create_hierarchy",
    "diff": "bulk.analysis.diff:diff",
    "disk_usage": "bulk.analysis.usage:disk_usage",
    "export_file": "interop.files.exporting:export_file",
    "from_dask": "interop.dask:from_dask",
    "import_file": "interop.files.importing:import_file",
    "jobs": "jobs",
    "load": "hierarchy.open:load",
    "pyramid": "conventions.ome.pyramid:pyramid",
    "rechunk": "bulk.rechunk.job:rechunk",
    "repair": "bulk.repair:repair",
    "run": "bulk.job:run",
    "save": "hierarchy.create:save",
    "serve": "viewer.server:serve",
    "serving": "viewer.server:serving",
    "show_versions": "config:show_versions",
    "preview": "viewer.picture:preview",
    "undo_conversion": "bulk.in_place:undo_conversion",
    "validate": "hierarchy.validate:validate",
    "verify": "bulk.verify:verify",
    "view_as": "bulk.view_as.store:view_as",
    "stats": "bulk.analysis.stats:stats",
    "suggest_chunks": "bulk.analysis.suggestion:suggest_chunks",
    "xarray": "xarray",
    "zarr": "zarr",
}

# By `__getattr__`, too, so that an asterisk imports only what can be had.
_PUBLIC = __all__
del __all__
if not _typing.TYPE_CHECKING:  # for which any name would be one of the module's
    __getattr__ = _registry.attributes(__name__, _LATER, _PUBLIC)


def __dir__() -> list[str]:
    return _registry.available(_PUBLIC)
