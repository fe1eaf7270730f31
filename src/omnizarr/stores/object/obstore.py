"""The package obstore in this process, and its clients; a forked process gets its own copy.

obstore has threads of its own, which a forked process does not inherit: a request would wait
forever, and closing an inherited connection would close it for the parent as well. So a forked
process loads the library a second time, and never frees what it inherited.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from omnizarr.concurrency import fork
from omnizarr.concurrency.fork import on_fork
from omnizarr.concurrency.retry import TransientError
from omnizarr.errors import MissingModule, StoreError
from omnizarr.stores.base import Range, is_web_page

Meta: TypeAlias = dict[str, Any]
NO_RANGES = "Received non-partial response"  # the message for a server that sends all of a value
_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_NATIVE = "obstore._obstore"
_lock = fork.lock()
_library: ModuleType | None = None
KEPT = 4  # unused clients, for programs that open one URL after the other
_clients: WeakValueDictionary[Hashable, Client] = WeakValueDictionary()
_recent: deque[Client] = deque(maxlen=KEPT)
_forked = False


def library() -> Any:
    """Return the module ``obstore``, with ``obstore.store`` and ``obstore.exceptions``."""
    global _library
    with _lock:
        if _library is None:
            _library = _second_copy() if _forked else _imported()
        return _library


class Client:
    """A store of obstore, and the process that may use it."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.process = os.getpid()


def client(key: Hashable, make: Callable[[Any], Any]) -> Client:
    """Return what `make` builds from the library, once for all stores with the same key.

    It is released when no store uses it and some others were made since. None: not shared.
    """
    found = None if key is None else _clients.get(key)
    if found is None:
        found = Client(make(library()))
    if key is not None:
        with _lock:
            found = _clients.setdefault(key, found)
            _recent.append(found)
    return found


# Requests


def fetch(
    client: Any, path: str, part: Range | None = None, copy: bool = True
) -> tuple[bytes, Meta, Mapping[str, str]]:
    """Return a part, a buffer of obstore unless `copy`, its `Meta` and attributes.

    The part is not empty; one that starts from the end comes with all that follows.
    """
    result = client.get(path, options={} if part is None else {"range": _range_option(part)})
    first, end = result.range
    meta, attributes = result.meta, result.attributes
    data = result.bytes()
    if copy:
        data = bytes(data)
    asked = Range(part.start, None if part.start < 0 else part.length) if part else Range()
    if Range(first, len(data)) != asked.within(Range(0, meta["size"])):
        raise TransientError(f"{len(data)} bytes came as bytes {first} to {end}")
    if is_web_page(attributes.get("Content-Type"), data, first):
        raise StoreError("a web page came instead of data; is a login needed?")
    return data, meta, attributes


def _range_option(part: Range) -> dict[str, int] | tuple[int, int]:
    if part.start < 0:
        return {"suffix": -part.start}
    if part.length is None:
        return {"offset": part.start}
    return part.start, part.start + part.length


def status_of(error: Exception) -> int | None:
    """Return the HTTP status that is the reason of an error."""
    found = _STATUS.search(str(error))
    return None if found is None else int(found[1])


# Copies for forked processes


def _imported() -> ModuleType:
    try:
        module = importlib.import_module("obstore")
        importlib.import_module("obstore.store")
        importlib.import_module("obstore.exceptions")
    except ImportError as e:
        raise MissingModule(
            f"object stores need the package obstore; pip install 'omnizarr[cloud]' ({e})"
        ) from e
    return module


def _second_copy() -> ModuleType:
    """Return a second copy of obstore, without threads and connections of the parent."""
    native = str(sys.modules[_NATIVE].__file__)
    ours = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "obstore"}
    for name in ours:
        del sys.modules[name]
    try:
        loader = ExtensionFileLoader(_NATIVE, _copy(native))
        loaded = module_from_spec(ModuleSpec(_NATIVE, loader, origin=loader.path))
        loader.exec_module(loaded)
        loaded.__file__ = native
        sys.modules[_NATIVE] = loaded
        return _imported()
    finally:
        for name in [n for n in sys.modules if n.partition(".")[0] == "obstore"]:
            del sys.modules[name]
        sys.modules.update(ours)


def _copy(path: str) -> str:
    """Return the path of a copy of a library: the system loads each file only once."""
    if hasattr(os, "memfd_create"):
        name = f"/proc/self/fd/{os.memfd_create('obstore')}"
    else:
        descriptor, name = tempfile.mkstemp(suffix=os.path.basename(path))
        os.close(descriptor)
    shutil.copyfile(path, name)
    return name


def _in_child() -> None:
    global _library, _clients, _forked
    _forked = _forked or _NATIVE in sys.modules
    inherited = [*_clients.values()]
    if inherited:
        fork.never_release(inherited)
    _clients, _library = WeakValueDictionary(), None
    _recent.clear()


on_fork(in_child=_in_child)
