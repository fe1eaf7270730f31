"""Programs that exit while the library is working, or that use it in exit handlers."""

from __future__ import annotations

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
class Thing:
    def __init__(self, act=use):
        self.me, self.act = self, act
    def __del__(self):
        self.act()
"""
PROGRAMS = {
    "threads at work": "in_threads(use, False)",
    "a pool at work": """
        pool = ThreadPoolExecutor(3)
        for _ in range(6):
            pool.submit(use)
    """,
    "atexit, with daemon threads at work": """
        atexit.register(use)
        in_threads(use_for_ever, True)
    """,
    "weakref.finalize": """
        function = lambda: None
        weakref.finalize(function, use)
    """,
    "__del__ of a module's object": """
        sys.modules["kept"] = Thing()
        use()
    """,
    "__del__ in a cycle": "Thing()",
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
    "open stores and a writer that was not closed": """
        from omnizarr.storage import ZipStore
        from omnizarr.stores.sqlite import SQLiteStore
        stores = [ZipStore(location + ".zip", mode="a"), SQLiteStore(location + ".sqlite")]
        arrays = [oz.create_array(store, data=array[...], overwrite=True) for store in stores]
        for store in stores:
            atexit.register(lambda: oz.open(store, "r+")[...].sum())
        writers = sys.modules["kept"] = [arrays[0].writer(), array.writer()]
        for writer in writers:
            writer[:3] = 1
    """,
    "a fork in a finaliser": """
        import gc
        def fork():
            child = os.fork()
            if not child:  # not what its parent has locked, who waits for it
                assert (array[...] == 1).all()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        gc.set_threshold(50)
        for _ in range(4):
            Thing(fork)
            use()
        gc.set_threshold(700)
        gc.collect()
    """,
}
