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
from omnizarr.errors import MissingModule, OmnizarrWarning
from omnizarr.extension import keep_bare_nan
from omnizarr.interop.zarr import library
from omnizarr.interop.zarr.arrays import ZarrArray
from omnizarr.interop.zarr.asynchronous import FUNCTIONS as AWAITABLE
from omnizarr.interop.zarr.asynchronous import ZarrAsyncArray, ZarrAsyncGroup
from omnizarr.interop.zarr.groups import ZarrGroup
from omnizarr.interop.zarr.opening import FUNCTIONS

# The warning of names that version 3 reserves; xarray has such names.
_RESERVED = registry.load("omnizarr.formats.v3:RESERVED")
# What takes the place of zarr-python's names, by module.
NAMES: dict[str, dict[str, Any]] = {
    "zarr": {
        **FUNCTIONS,
        "Array": ZarrArray,
        "AsyncArray": ZarrAsyncArray,
        "AsyncGroup": ZarrAsyncGroup,
        "Group": ZarrGroup,
        "print_debug_info": show_versions,
    },
    "zarr.api.synchronous": FUNCTIONS,
    "zarr.api.asynchronous": AWAITABLE,
    "zarr.core.array": {
        "Array": ZarrArray,
        "create_array": AWAITABLE["create_array"],
        "from_array": AWAITABLE["from_array"],
    },
    "zarr.core.group": {
        "Group": ZarrGroup,
        "AsyncGroup": ZarrAsyncGroup,
        "create_hierarchy": AWAITABLE["create_hierarchy"],
    },
    "zarr.core.sync_group": {"create_hierarchy": FUNCTIONS["create_hierarchy"]},
}
# Modules that keep their `AsyncArray`, with which they make the metadata of new arrays.
_MAKERS = ("zarr.api.asynchronous", "zarr.core.array")
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
    try:
        _set_modes(True)
        _exchange()
    except BaseException:  # such as a warning that is an error here
        uninstall()
        raise


def uninstall() -> None:
    """Put zarr-python's names back, also in modules that were imported meanwhile."""
    _set_modes(False)
    for names, name, before in reversed(_exchanged):
        names[name] = before
    _exchanged.clear()
    ours = {key: NAMES[key[0]][key[1]] for key in library.replaced}
    back = {id(ours[key]): (ours[key], theirs) for key, theirs in library.replaced.items()}
    for _, names, name, (_, theirs) in _holders(back):
        names[name] = theirs
    library.forget()


def _set_modes(on: bool) -> None:
    """Do, or do no longer, what zarr-python does and omnizarr does not."""
    keep_bare_nan(on)
    registry.set_source("codec", library.find_codec if on else None)
    if on:
        os.environ[library.IN_PLACE] = "1"
        errors.silenced.add(_RESERVED)
    else:
        os.environ.pop(library.IN_PLACE, None)
        errors.silenced.discard(_RESERVED)


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
            kept = name == "AsyncArray" and module_name in _MAKERS
            if entry is not None and entry[0] is value and not kept:
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
