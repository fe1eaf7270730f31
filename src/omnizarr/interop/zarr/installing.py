"""Put our names in the place of zarr-python's, and back.

With zarr-python installed, the names in its own modules are exchanged: ``zarr.open_group``,
``zarr.core.array.Array``, ``zarr.api.asynchronous.open`` … and, in every module that was imported
before, what it had imported of them by name. Without zarr-python there is a module ``zarr`` of
ours.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import types
import warnings
from collections.abc import Sequence
from typing import Any

from omnizarr import codecs as own_codecs
from omnizarr import errors, registry, storage
from omnizarr._json import keep_bare_nan
from omnizarr.config import show_versions
from omnizarr.errors import MissingModule, OmnizarrWarning
from omnizarr.formats.v3 import RESERVED
from omnizarr.interop.zarr import codecs, config, library
from omnizarr.interop.zarr.arrays import ZarrArray
from omnizarr.interop.zarr.asynchronous import FUNCTIONS as AWAITABLE
from omnizarr.interop.zarr.asynchronous import ZarrAsyncArray, ZarrAsyncGroup, save_new_metadata
from omnizarr.interop.zarr.groups import ZarrGroup
from omnizarr.interop.zarr.opening import FUNCTIONS

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
    if isinstance(found, _OwnModule):
        return True
    return found is not None and any(names is vars(found) for names, _, _ in _exchanged)


def install() -> None:
    """Put our names in the place of zarr-python's; do nothing if they are there already."""
    if is_installed():
        return
    if _exchanged:  # in another zarr-python, which was imported again since
        uninstall()
    _check_version()
    os.environ[library.IN_PLACE] = "1"
    errors.silenced.add(RESERVED)
    if library.is_installed():
        registry.add_source("codec", codecs.find)
        keep_bare_nan(True)
        try:
            _exchange()
        except BaseException:  # such as a warning that is an error here
            uninstall()
            raise
    else:
        _make_modules()


def uninstall() -> None:
    """Put zarr-python's names back, also in modules that were imported meanwhile."""
    os.environ.pop(library.IN_PLACE, None)
    errors.silenced.discard(RESERVED)
    if _exchanged:
        registry.remove_source("codec", codecs.find)
        keep_bare_nan(False)
    for names, name, before in reversed(_exchanged):
        names[name] = before
    _exchanged.clear()
    ours = {key: NAMES[key[0]][key[1]] for key in library.replaced}
    back = {id(ours[key]): (ours[key], theirs) for key, theirs in library.replaced.items()}
    for _, names, name, (_, theirs) in _holders(back):
        names[name] = theirs
    library.forget()
    if isinstance(sys.modules.get("zarr"), _OwnModule):
        sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _Refusal)]
        for name in [n for n in sys.modules if n == "zarr" or n.startswith("zarr.")]:
            del sys.modules[name]


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


def _check_version() -> None:
    if library.is_installed() and not library.version().startswith("3."):
        raise MissingModule(
            f"zarr-python {library.version()} is installed; as_zarr stands in for 3.x:"
            " pip install 'zarr>=3.1'"
        )


# With zarr-python


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


# Without zarr-python


class _OwnModule(types.ModuleType):
    """A module of ours in place of one of zarr-python."""


def _make_modules() -> None:
    made = {
        "zarr": {**_MAIN, "__version__": library.CHECKED, "config": config.current()},
        "zarr.api": {},
        "zarr.api.synchronous": dict(FUNCTIONS),
        "zarr.api.asynchronous": dict(AWAITABLE),
        "zarr.codecs": _public(own_codecs),
        "zarr.storage": _public(storage),
        "zarr.errors": {n: v for n, v in vars(errors).items() if not n.startswith("_")},
    }
    for name, names in made.items():
        module = _OwnModule(name, f"omnizarr in the place of {name} (omnizarr.as_zarr).")
        vars(module).update(names)
        module.__path__ = []  # so that the finder below is asked
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
    sys.meta_path.insert(0, _Refusal())


def _public(module: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}


class _Refusal(importlib.abc.MetaPathFinder):
    """Say what to install when a part of zarr-python is imported that only it has."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.startswith("zarr."):
            raise MissingModule(
                f"{fullname} is a part of zarr-python, which is not installed: pip install zarr",
            )
        return None
