"""Blocking and awaitable functions inside running event loops."""

from __future__ import annotations

import asyncio
import random
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import omnizarr as oz
from omnizarr import aio
from omnizarr.concurrency import pool
from tests.faults.programs import run
from tests.sampling import sample
from tests.test_aio import LOOPS

DATA = np.arange(64 * 64, dtype="i4").reshape(64, 64)
PART = (slice(3, 40), slice(5, 50))


def use(store: Any) -> None:
    """Create, write, read and change with blocking calls."""
    group = oz.create_group(store, overwrite=True)
    array = group.create_array("x", data=DATA, chunks=(16, 16))
    array[PART] = DATA[PART]
    array.append(DATA[:3])
    array.attrs["k"] = 1
    again = oz.open(store)
    assert np.array_equal(again["x"][:64], DATA)
    assert again["x"].attrs["k"] == 1
    assert [name for name, _ in again.members()] == ["x"]


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("kind", ["memory", "directory", "fsspec", "sqlite", "zip"])
@pytest.mark.parametrize("loop", sample(LOOPS, 1))
def test_blocking_calls_work_inside_a_running_event_loop(
    loop: str, kind: str, engine: Any, tmp_path: Path
) -> None:
    from omnizarr.stores.sqlite import SQLiteStore

    stores: dict[str, Any] = {
        "memory": oz.storage.MemoryStore,
        "directory": lambda: tmp_path / "x",
        "fsspec": lambda: f"memory://{tmp_path}/x",
        "sqlite": lambda: SQLiteStore(tmp_path / "x.sqlite"),
        "zip": lambda: oz.storage.ZipStore(tmp_path / "x.zip", mode="a"),
    }

    async def main() -> None:
        with oz.configure(engine=engine, threads=4):
            use(stores[kind]())

    LOOPS[loop](main)


@pytest.mark.parametrize("outer", LOOPS)
def test_event_loops_in_threads_do_not_deadlock(outer: str) -> None:
    async def inner() -> int:
        array = await aio.create_array(None, data=DATA, chunks=(16, 16))
        return int((await array.getitem(...)).sum())

    def another() -> int:
        return asyncio.run(inner()) + trio.run(inner)

    async def main() -> int:
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(another())) for _ in range(3)]
        for thread in threads:
            thread.start()
        mine = await inner() + await aio.run(another)
        for thread in threads:
            thread.join()
        return mine + sum(found)

    assert LOOPS[outer](main) == int(DATA.sum()) * (3 + 2 * 3)


def test_cancelled_reads_and_writes_leave_no_torn_value_and_no_busy_thread(
    tmp_path: Path,
) -> None:
    array = oz.create_array(tmp_path, shape=(64, 64), chunks=(16, 16), dtype="i4")
    array[...] = 1
    chance = random.Random(1)

    async def main() -> int:
        opened, cancelled = await aio.open(tmp_path, "r+"), 0
        for value in range(2, 40):
            tasks = [
                asyncio.create_task(opened.setitem(..., value)),
                asyncio.create_task(opened.getitem(...)),
                asyncio.create_task(opened.setitem((slice(3, 40), slice(3, 40)), value)),
            ]
            await asyncio.sleep(chance.uniform(0, 0.004))
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            cancelled += sum(isinstance(one, asyncio.CancelledError) for one in ended)
        return cancelled

    with oz.configure(engine="reference", threads=4):
        assert asyncio.run(main()) > 10
    assert pool._used.threads == 0
    found = array[...].reshape(4, 16, 4, 16).swapaxes(1, 2)
    assert (found > 0).all()
    assert (found[3, 3] == found[3, 3, 0, 0]).all()  # only written as a whole


def test_a_loop_can_be_closed_while_an_operation_runs() -> None:
    code = """
    import asyncio
    from omnizarr import aio
    go_on, done = threading.Event(), threading.Event()
    def slow():
        go_on.wait(60)
        done.set()
    async def main():
        task = asyncio.create_task(aio.run(slow))
        await asyncio.sleep(0.05)
        return task
    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(main())
    task._log_destroy_pending = False  # asyncio warns of it, which is not tested here
    loop.close()
    go_on.set()
    assert done.wait(60)
    async def other():
        return (await aio.create_array(None, data=[1, 2])).shape
    print(asyncio.run(other()))
    """
    assert run(code) == ["(2,)"]


@pytest.fixture
def kernel() -> Any:
    """Start a Jupyter kernel in another process, and a client."""
    pytest.importorskip("ipykernel")
    manager = pytest.importorskip("jupyter_client.manager")
    started, client = manager.start_new_kernel(kernel_name="python3", startup_timeout=120)
    yield started, client
    client.stop_channels()
    started.shutdown_kernel(now=True)


def test_a_jupyter_kernel_can_read_write_await_and_be_interrupted(
    kernel: Any, tmp_path: Path
) -> None:
    manager, client = kernel

    def run(code: str) -> Any:
        return client.execute_interactive(
            textwrap.dedent(code), timeout=120, output_hook=lambda _: None
        )["content"]

    begin = f"""
    import sys
    sys.path[:0] = {sys.path!r}
    import asyncio, numpy as np, omnizarr as oz
    from omnizarr import aio
    assert asyncio.get_running_loop().is_running()
    location = {str(tmp_path / "x")!r}
    array = oz.create_array(location, data=np.arange(4096).reshape(64, 64), chunks=(16, 16))
    array[3:40, 3:40] = 1
    assert array[3, 3] == 1
    opened = await aio.open(location)
    assert (await opened.getitem((3, 3))) == 1
    """
    assert run(begin)["status"] == "ok"
    threading.Timer(1.0, manager.interrupt_kernel).start()
    stopped = run("while True:\n    array[...] = array[...]\n    array[3:40, 3:40] = 1")
    assert (stopped["status"], stopped["ename"]) == ("error", "KeyboardInterrupt")
    after = """
    import threading
    def change():
        array[3:40, 3:40] = 2
    other = threading.Thread(target=change)
    other.start()
    other.join(60)
    assert not other.is_alive() and array[3, 3] == 2
    """
    assert run(after)["status"] == "ok"
