"""Put our names in the place of zarr-python's, and back.

With zarr-python installed, the names in its own modules are exchanged: ``zarr.open_group``,
``zarr.core.array.Array``, ``zarr.api.asynchronous.open`` … and, in every module that was imported
before, what it had imported of them by name.
"""

from __future__ import annotations

import os
import sys
import types
import warnings
from typing import Any

from omnizarr import errors, registry, show_versions
from omnizarr._json import keep_bare_nan
from omnizarr.errors import MissingModule, OmnizarrWarning
from omnizarr.interop.zarr import library
from omnizarr.interop.zarr.arrays import ZarrArray
from omnizarr.interop.zarr.asynchronous import FUNCTIONS as AWAITABLE
from omnizarr.interop.zarr.asynchronous import ZarrAsyncArray, ZarrAsyncGroup, save_new_metadata
from omnizarr.interop.zarr.groups import ZarrGroup
from omnizarr.interop.zarr.opening import FUNCTIONS

# The warning of names that version 3 reserves; xarray has such names.
_RESERVED = registry.load("omnizarr.formats.v3:RESERVED")
_MAIN: dict[str, Any] = {
    **FUNCTIONS,
    "Array": ZarrArray,
    "AsyncArray": ZarrAsyncArray,
    "AsyncGroup": ZarrAsyncGroup,
    "Group": ZarrGroup,
    "print_debug_info": show_versions,
}
# What takes the place of zarr-python's names, by module.
NAMES: dict[str, dict[str, Any]] = {
    "zarr": _MAIN,
    "zarr.api.synchronous": FUNCTIONS,
    "zarr.api.asynchronous": AWAITABLE,
    "zarr.core.array": {
        "Array": ZarrArray,
        "AsyncArray": ZarrAsyncArray,
        "create_array": AWAITABLE["create_array"],
        "from_array": AWAITABLE["from_array"],
        "save_new_metadata": save_new_metadata,  # of zarr-python 3.4 and later
    },
    "zarr.core.group": {
        "Group": ZarrGroup,
        "AsyncGroup": ZarrAsyncGroup,
        "create_hierarchy": AWAITABLE["create_hierarchy"],
    },
    "zarr.core.sync_group": {"create_hierarchy": FUNCTIONS["create_hierarchy"]},
}
# What was exchanged: the dictionary of a module, the name, and the value before.
_exchanged: list[tuple[dict[str, Any], str, Any]] = []


def is_installed() -> bool:
    """Return True if our names are in the place of zarr-python's."""
    found = sys.modules.get("zarr")
    return found is not None and any(names is vars(found) for names, _, _ in _exchanged)


def install() -> None:
    """Put our names in the place of zarr-python's; do nothing if they are there already."""
    if is_installed():
        return
    if _exchanged:  # in another zarr-python, which was imported again since
        uninstall()
    version = str(library.module("zarr").__version__)
    if not version.startswith("3."):
        raise MissingModule(
            f"zarr-python {version} is installed; as_zarr stands in for 3.x:"
            " pip install 'zarr>=3.1'"
        )
    os.environ[library.IN_PLACE] = "1"
    errors.silenced.add(_RESERVED)
    registry.add_source("codec", library.find_codec)
    keep_bare_nan(True)
    try:
        _exchange()
    except BaseException:  # such as a warning that is an error here
        uninstall()
        raise


def uninstall() -> None:
    """Put zarr-python's names back, also in modules that were imported meanwhile."""
    os.environ.pop(library.IN_PLACE, None)
    errors.silenced.discard(_RESERVED)
    if _exchanged:
        registry.remove_source("codec", library.find_codec)
        keep_bare_nan(False)
    for names, name, before in reversed(_exchanged):
        names[name] = before
    _exchanged.clear()
    ours = {key: NAMES[key[0]][key[1]] for key in library.replaced}
    back = {id(ours[key]): (ours[key], theirs) for key, theirs in library.replaced.items()}
    for _, names, name, (_, theirs) in _holders(back):
        names[name] = theirs
    library.forget()


def _holders(
    wanted: dict[int, tuple[Any, Any]],
) -> list[tuple[str, dict[str, Any], str, tuple[Any, Any]]]:
    """Return where modules hold objects: the module, its names, the name, and the entry."""
    found = []
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] == "omnizarr" or not isinstance(module, types.ModuleType):
            continue
        names = vars(module)
        for name, value in list(names.items()):
            entry = wanted.get(id(value))
            if entry is not None and entry[0] is value:
                found.append((module_name, names, name, entry))
    return found


def _exchange() -> None:
    imported_before = "zarr" in sys.modules
    others = [n for n in list(sys.modules) if n.partition(".")[0] not in ("zarr", "omnizarr")]
    for module_name, names in NAMES.items():
        found = vars(library.module(module_name))
        for name in names:
            if name in found:
                library.replaced[module_name, name] = found[name]
    by_identity: dict[int, tuple[Any, Any]] = {}
    for (module_name, name), theirs in library.replaced.items():
        by_identity[id(theirs)] = (theirs, NAMES[module_name][name])
    held = set()
    for module_name, names, name, (theirs, ours) in _holders(by_identity):
        _exchanged.append((names, name, theirs))
        names[name] = ours
        if module_name in others:
            held.add(module_name)
    if imported_before and held:
        warnings.warn(
            f"zarr was imported before omnizarr.as_zarr() by {', '.join(sorted(held)[:5])}; names"
            " there are exchanged, objects and registrations made before stay zarr-python's. Call"
            " omnizarr.as_zarr() first, or run python -m omnizarr.as_zarr",
            OmnizarrWarning,
            stacklevel=4,
        )
