"""The installed zarr-python: its modules, and its own objects while ours are in their place."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import warnings
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from omnizarr.concurrency.cache import Cache
from omnizarr.errors import MissingModule

# The environment variable by which child processes know that our names are in place.
IN_PLACE = "OMNIZARR_AS_ZARR"
# The newest release that these modules were checked with, given as the version without one.
CHECKED = "3.4.2"
# zarr-python's own objects by module and name, while ours are in their place.
replaced: dict[tuple[str, str], Any] = {}
# Code that makes coroutines which need an event loop.
_waiting: set[CodeType] = set()
_data_types: Cache[Any, Any] = Cache(64)


@functools.cache
def is_installed() -> bool:
    """Return True if zarr-python 3 can be imported."""
    found = sys.modules.get("zarr")
    if found is not None:
        return getattr(found, "__file__", None) is not None
    return importlib.util.find_spec("zarr") is not None


def version() -> str:
    """Return the version of the installed zarr-python, or the newest one that was checked."""
    return str(module("zarr").__version__) if is_installed() else CHECKED


def module(name: str) -> ModuleType:
    """Return a module of the installed zarr-python."""
    if not is_installed():
        raise MissingModule(
            f"{name} is a part of zarr-python, which is not installed: pip install zarr"
        )
    return importlib.import_module(name)


def original(module_name: str, name: str) -> Any:
    """Return an object of zarr-python itself, also while ours is in its place."""
    key = (module_name, name)
    return replaced[key] if key in replaced else getattr(module(module_name), name)


def sync(awaitable: Any) -> Any:
    """Wait for a coroutine of zarr-python."""
    return module("zarr.core.sync").sync(awaitable)


def run_now(make: Any) -> Any:
    """Return the result of a coroutine that should wait for nothing, without an event loop.

    `make` is a function without arguments that returns the coroutine.

    If it waits nevertheless, as those that store metadata do since zarr-python 3.4, it is closed,
    and another one runs in zarr-python's loop; from then on, all from the same place do.
    """
    if make.__code__ not in _waiting:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is no current event loop")
            warnings.filterwarnings("ignore", "coroutine .* was never awaited")
            awaitable = make()
            try:
                awaitable.send(None)
            except StopIteration as e:
                return e.value
            except RuntimeError:  # it asks for the running loop
                pass
            awaitable.close()
            del awaitable
        _waiting.add(make.__code__)
    return sync(make())


def data_type(dtype: Any, zarr_format: int) -> Any:
    """Return zarr-python's type for a number, which it finds slowly; others as they are."""
    try:
        found = np.dtype(dtype)
    except TypeError:  # a name that only zarr-python knows, or nobody
        return dtype
    if found.kind not in "biufc" or (isinstance(dtype, str) and dtype.isalpha()):
        return dtype
    key = (found, zarr_format)
    known = _data_types.get(key)
    if known is None:
        made = module("zarr.dtype").parse_dtype(found, zarr_format=zarr_format)
        known = _data_types.put(key, made)
    return known


@functools.cache
def _scratch_class() -> type:
    """Return the class of stores for metadata that are made but not stored.

    It has its own methods, since tests replace those of `MemoryStore`.
    """

    async def get(self: Any, key: str, *args: Any, **options: Any) -> Any:
        return self._store_dict.get(key)

    async def set(self: Any, key: str, value: Any, *args: Any, **options: Any) -> None:
        self._store_dict[key] = value

    methods = {"is_scratch": True, "get": get, "set": set}
    return type("ScratchStore", (module("zarr.storage").MemoryStore,), methods)


def scratch_store() -> Any:
    """Return an empty store of zarr-python in which `AsyncArray` saves nothing."""
    return _scratch_class()()


def forget() -> None:
    """Forget the objects that were replaced, and what was made of them."""
    replaced.clear()
    _scratch_class.cache_clear()
    _data_types.clear()
    is_installed.cache_clear()


def is_ours(value: Any) -> bool:
    """Return True for an object that is defined in this package."""
    return str(getattr(value, "__module__", "")).partition(".")[0] == "omnizarr"
