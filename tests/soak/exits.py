"""Interpreters that exit while the library is working, or that use it in exit handlers.

Every program runs in an interpreter of its own; it must end in time, with the status that it asked
for and without a word on the standard error, and leave an array that can be read.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np

import omnizarr as oz

ENGINES = ("auto", "reference")
TIMEOUT = 60.0  # seconds, after which a process is taken to hang
SHAPE = (256, 512)
BEGIN = """
import atexit, os, sys, threading, time, weakref
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import omnizarr as oz
location, engine = sys.argv[1:]
oz.config.set(engine=engine, threads=4)
array = oz.open(location, "r+")
def use():
    array[...] = 1
    array[3:200, 5:300] = 1
    assert (array[...] == 1).all()
    array.attrs["used"] = 1
def use_for_ever():
    while True:
        use()
def in_threads(target, daemon):
    threads = [threading.Thread(target=target, daemon=daemon) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
"""
PROGRAMS = {
    "daemon threads at work": "in_threads(use_for_ever, True)",
    "threads at work": "in_threads(use, False)",
    "a pool at work": """
        pool = ThreadPoolExecutor(3)
        for _ in range(6):
            pool.submit(use)
    """,
    "atexit": "atexit.register(use)",
    "atexit, with daemon threads at work": """
        atexit.register(use)
        in_threads(use_for_ever, True)
    """,
    "weakref.finalize": """
        class Thing: pass
        thing = Thing()
        weakref.finalize(thing, use)
    """,
    "__del__ of a module's object": """
        class Thing:
            def __del__(self):
                use()
        thing = Thing()
        sys.modules["kept"] = thing
        use()
    """,
    "__del__ in a cycle": """
        class Thing:
            def __init__(self):
                self.me = self
            def __del__(self, use=use):
                use()
        Thing()
    """,
    "sys.exit in a thread": """
        def leave():
            use()
            sys.exit(3)
        in_threads(leave, False)
    """,
    "sys.exit, with daemon threads at work": """
        in_threads(use_for_ever, True)
        sys.exit(0)
    """,
    "os._exit, with threads at work": """
        in_threads(use_for_ever, False)
        os._exit(0)
    """,
    "aio in atexit": """
        import asyncio
        from omnizarr import aio
        async def later():
            opened = await aio.open(location, "r+")
            await opened.setitem(..., 1)
        asyncio.run(later())
        atexit.register(lambda: asyncio.run(later()))
    """,
    "open stores": """
        from omnizarr.stores import ZipStore
        from omnizarr.stores.sqlite import SQLiteStore
        stores = [ZipStore(location + ".zip", mode="a"), SQLiteStore(location + ".sqlite")]
        arrays = [oz.create_array(store, data=array[...], overwrite=True) for store in stores]
        for store in stores:
            atexit.register(lambda: oz.open(store, "r+")[...].sum())
        writer = arrays[0].writer()
        writer[:3] = 1
    """,
    "a writer that was not closed": """
        writer = array.writer()
        writer[:3] = 1
        sys.modules["kept"] = writer
    """,
    "a fork in a finaliser": """
        import gc
        class Thing:
            def __init__(self):
                self.me = self
            def __del__(self):
                child = os.fork()
                if not child:  # not what its parent has locked, who waits for it
                    assert (array[...] == 1).all()
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
        gc.set_threshold(50)
        for _ in range(4):
            Thing()
            use()
        gc.set_threshold(700)
        gc.collect()
    """,
}


def prepare(location: Path) -> None:
    oz.create_array(location, shape=SHAPE, chunks=(64, 64), dtype="i4")[...] = 1


def run(location: Path, program: str, engine: str, python: str = sys.executable) -> dict[str, Any]:
    """Run a program; return its duration, and in `wrong` what was wrong."""
    code = BEGIN + textwrap.dedent(PROGRAMS[program])
    begin = time.monotonic()
    command = [python, "-W", "ignore::DeprecationWarning", "-c", code, str(location), engine]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except subprocess.TimeoutExpired as e:
        return {"wrong": f"it hangs: {e.stderr!r}", "seconds": TIMEOUT}
    wrong = "" if done.returncode == 0 and not done.stderr else f"{done.returncode} {done.stderr}"
    found = oz.open(location)[...]
    if not np.array_equal(found, np.ones(SHAPE)):
        wrong += " torn"
    return {"wrong": wrong, "seconds": round(time.monotonic() - begin, 2)}
