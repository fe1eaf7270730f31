"""Every Zarr ever written, in one library.

>>> import omnizarr as oz
>>> a = oz.create_array("ocean.zarr", shape=(365, 720, 1440), dtype="f4")
>>> oz.open("ocean.zarr")[0].shape
(720, 1440)
"""

import typing as _typing

from omnizarr import config as config
from omnizarr import errors as errors
from omnizarr import registry as _registry
from omnizarr.config import configure as configure
from omnizarr.errors import *  # noqa: F403 - all of them are public
from omnizarr.registry import register as register

if _typing.TYPE_CHECKING:
    from omnizarr import aio as aio
    from omnizarr import cf as cf
    from omnizarr import codecs as codecs
    from omnizarr import geo as geo
    from omnizarr import jobs as jobs
    from omnizarr import ome as ome
    from omnizarr import storage as storage
    from omnizarr import xarray as xarray
    from omnizarr import zarr as zarr
    from omnizarr.as_zarr import as_zarr as as_zarr
    from omnizarr.bulk.analysis.diff import diff as diff
    from omnizarr.bulk.analysis.stats import stats as stats
    from omnizarr.bulk.analysis.suggestion import suggest_chunks as suggest_chunks
    from omnizarr.bulk.analysis.usage import disk_usage as disk_usage
    from omnizarr.bulk.batches import batches as batches
    from omnizarr.bulk.convert import convert as convert
    from omnizarr.bulk.convert import undo_conversion as undo_conversion
    from omnizarr.bulk.copy import copy as copy
    from omnizarr.bulk.job import run as run
    from omnizarr.bulk.rechunk.job import rechunk as rechunk
    from omnizarr.bulk.repair import repair as repair
    from omnizarr.bulk.verify import verify as verify
    from omnizarr.bulk.view_as.store import view_as as view_as
    from omnizarr.config import show_versions as show_versions
    from omnizarr.conventions.ome.pyramid import pyramid as pyramid
    from omnizarr.hierarchy.array import Array as Array
    from omnizarr.hierarchy.create import create_array as create_array
    from omnizarr.hierarchy.create import create_group as create_group
    from omnizarr.hierarchy.create import create_hierarchy as create_hierarchy
    from omnizarr.hierarchy.create import save as save
    from omnizarr.hierarchy.group import Group as Group
    from omnizarr.hierarchy.open import consolidate_metadata as consolidate_metadata
    from omnizarr.hierarchy.open import load as load
    from omnizarr.hierarchy.open import open as open
    from omnizarr.hierarchy.validate import validate as validate
    from omnizarr.hierarchy.view import View as View
    from omnizarr.interop.dask import from_dask as from_dask
    from omnizarr.interop.files.exporting import export_file as export_file
    from omnizarr.interop.files.importing import import_file as import_file
    from omnizarr.stores.tracing import trace as trace
    from omnizarr.viewer.picture import preview as preview
    from omnizarr.viewer.server import serve as serve
    from omnizarr.viewer.server import serving as serving

__version__ = config.VERSION

# Loaded on first use, so that importing the package stays quick.
_MODULES = ("aio", "as_zarr", "cf", "codecs", "geo", "jobs", "ome", "storage", "xarray", "zarr")
_NAMES = {
    "bulk.analysis.diff": ("diff",),
    "bulk.analysis.stats": ("stats",),
    "bulk.analysis.suggestion": ("suggest_chunks",),
    "bulk.analysis.usage": ("disk_usage",),
    "bulk.batches": ("batches",),
    "bulk.convert": ("convert", "undo_conversion"),
    "bulk.copy": ("copy",),
    "bulk.job": ("run",),
    "bulk.rechunk.job": ("rechunk",),
    "bulk.repair": ("repair",),
    "bulk.verify": ("verify",),
    "bulk.view_as.store": ("view_as",),
    "config": ("show_versions",),
    "conventions.ome.pyramid": ("pyramid",),
    "hierarchy.array": ("Array",),
    "hierarchy.create": ("create_array", "create_group", "create_hierarchy", "save"),
    "hierarchy.group": ("Group",),
    "hierarchy.open": ("consolidate_metadata", "load", "open"),
    "hierarchy.validate": ("validate",),
    "hierarchy.view": ("View",),
    "interop.dask": ("from_dask",),
    "interop.files.exporting": ("export_file",),
    "interop.files.importing": ("import_file",),
    "stores.tracing": ("trace",),
    "viewer.picture": ("preview",),
    "viewer.server": ("serve", "serving"),
}
_LATER = {name: name for name in _MODULES}
_LATER |= {name: f"{module}:{name}" for module, names in _NAMES.items() for name in names}

# `__all__` comes by `__getattr__`, too, so that an asterisk imports only what can be had.
_PRIVATE = {"MissingAttribute", "MissingModule", "Problem"}  # had from `errors`
_PUBLIC = [
    *sorted({*_LATER, *errors.__all__, "config", "configure", "errors", "register"} - _PRIVATE),
    "__version__",
]
if not _typing.TYPE_CHECKING:  # for which any name would be one of the module's
    __getattr__ = _registry.attributes(__name__, _LATER, _PUBLIC)


def __dir__() -> list[str]:
    return _registry.available(_PUBLIC)
