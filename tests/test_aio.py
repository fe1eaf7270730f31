"""Awaitables: the same results, one thread budget, and no write after a cancellation."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest
import trio

import omnizarr as oz
from omnizarr import aio, config

Main = Callable[[], Coroutine[Any, Any, Any]]


def in_uvloop(main: Main) -> Any:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def in_anyio(backend: str) -> Callable[[Main], Any]:
    def start(main: Main) -> Any:
        return pytest.importorskip("anyio").run(main, backend=backend)

    return start


LOOPS: dict[str, Callable[[Main], Any]] = {
    "asyncio": lambda main: asyncio.run(main()),
    "uvloop": in_uvloop,
    "trio": trio.run,
    "anyio on asyncio": in_anyio("asyncio"),
    "anyio on trio": in_anyio("trio"),
}


class SlowStore(oz.storage.MemoryStore):
    """A store that waits in every set until released, and signals when one has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.begun, self.go_on = threading.Event(), threading.Event()

    def set(self, key: str, value: Any) -> None:
        if self.slow:
            self.begun.set()
            assert self.go_on.wait(60)
        super().set(key, value)


@pytest.mark.parametrize("loop", LOOPS)
def test_everything_works_in_every_loop(loop: str) -> None:
    async def main() -> None:
        root = await aio.create_group(None, attributes={"a": 1})
        assert isinstance(root, aio.AsyncGroup)
        array = await root.create_array("x/y", data=np.arange(10.0), chunks=4)
        assert isinstance(array, aio.AsyncArray)
        assert (array.shape, array.chunks, array.path) == ((10,), (4,), "x/y")
        assert (await array.getitem(slice(2, 4))).tolist() == [2, 3]
        await array.setitem(slice(0, 2), 7)
        assert await array.append([1.0]) == (11,)
        await array.resize(12)
        assert array.shape == (12,)
        assert (await array.read(0)) == 7
        assert (await aio.run(lambda: array.blocking.oindex[[1, 3]])).tolist() == [7, 3]
        assert (await array.chunks_present()).all()
        assert (await array.update_attributes({"u": "m"})) == array
        assert array.attrs == {"u": "m"}
        assert (await aio.run(array.view[::-1].view[-2:].read)).tolist() == [7, 7]
        names = root.keys()
        assert [n async for n in names] == await names == ["x"]
        found = {n: type(m) async for n, m in root.members(max_depth=None)}
        assert found == {"x": aio.AsyncGroup, "x/y": aio.AsyncArray}
        assert await (await root.getitem("x")).contains("y")
        assert await root.get("nothing") is None
        await root.move("x/y", "z")
        await root.delitem("x")
        assert [n for n, _ in await root.arrays()] == ["z"]
        assert "z (12,)" in str(await root.tree())
        again = await aio.open(root.store)
        assert again == root
        assert repr(again).startswith("<AsyncGroup /")
        with pytest.raises(oz.NodeNotFound):
            await root.getitem("x")

    LOOPS[loop](main)


def test_settings_of_a_task_apply_to_its_operations() -> None:
    mark = contextvars.ContextVar("mark", default=0)

    async def main() -> tuple[int, bool]:
        mark.set(5)
        with oz.configure(write_empty_chunks=True):
            return await aio.run(lambda: (mark.get(), config.get().write_empty_chunks))

    assert asyncio.run(main()) == (5, True)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("threads", [1, 3])
def test_many_awaits_stay_within_the_thread_budget(threads: int, loop: str) -> None:
    lock, running, highest = threading.Lock(), [0], [0]
    enough = threading.Barrier(threads)

    def work() -> None:
        with lock:
            running[0] += 1
            highest[0] = max(highest[0], running[0])
        enough.wait(60)  # that many do run at once
        with lock:
            running[0] -= 1

    async def in_asyncio() -> None:
        with oz.configure(threads=threads):
            await asyncio.gather(*(aio.run(work) for _ in range(60)))

    async def in_trio() -> None:
        with oz.configure(threads=threads):
            async with trio.open_nursery() as nursery:
                for _ in range(60):
                    nursery.start_soon(aio.run, work)

    LOOPS[loop](in_trio if loop == "trio" else in_asyncio)
    assert highest[0] == threads


def test_a_nested_operation_does_not_deadlock() -> None:
    async def inner() -> int:
        return await aio.run(lambda: config.get().threads)

    async def main() -> tuple[int, int]:
        with oz.configure(threads=1):
            return await inner(), await aio.run(lambda: asyncio.run(inner()))

    assert asyncio.run(main()) == (1, 1)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_cancelled_write_finishes_before_the_cancellation(loop: str) -> None:
    store = SlowStore()
    array = aio.AsyncArray(oz.create_array(store, shape=4, dtype="i4"))
    store.slow = True
    order: list[str] = []

    def let_go() -> None:
        order.append("let go")
        store.go_on.set()

    async def in_asyncio() -> None:
        task = asyncio.create_task(array.setitem(..., 7))
        while not store.begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        asyncio.get_running_loop().call_later(0.05, let_go)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        order.append("cancelled")

    async def in_trio() -> None:
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:

                async def stop() -> None:
                    while not store.begun.is_set():
                        await trio.sleep(0.001)
                    scope.cancel()
                    await trio.sleep(0.05)
                    let_go()

                nursery.start_soon(stop)
                await array.setitem(..., 7)
            assert scope.cancelled_caught
            order.append("cancelled")

    LOOPS[loop](in_trio if loop == "trio" else in_asyncio)
    assert order == ["let go", "cancelled"]
    assert array.blocking[...].tolist() == [7] * 4


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("others", [1, config.MAX_THREADS])
def test_an_operation_cancelled_before_its_start_never_runs(loop: str, others: int) -> None:
    """Beside one other it has a thread, and waits because of the setting ``threads``."""
    release, done = threading.Event(), []

    def block() -> None:
        assert release.wait(60)

    async def in_asyncio() -> None:
        blocked = [asyncio.create_task(aio.run(block)) for _ in range(others)]
        await asyncio.sleep(0.01)
        late = [asyncio.create_task(aio.run(done.append, i)) for i in range(3)]
        await asyncio.sleep(0.05)
        late[0].cancel()
        late[1].cancel()
        ends = await asyncio.gather(*late[:2], return_exceptions=True)
        assert [type(e) for e in ends] == [asyncio.CancelledError] * 2
        release.set()
        await asyncio.gather(*blocked, late[2])

    async def in_trio() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(others):
                nursery.start_soon(aio.run, block)
            await trio.sleep(0.01)
            with trio.move_on_after(0.05) as scope:
                await aio.run(done.append, 0)
            assert scope.cancelled_caught
            release.set()
            await aio.run(done.append, 2)

    with oz.configure(threads=1):
        LOOPS[loop](in_trio if loop == "trio" else in_asyncio)
    assert done == [2]


def test_errors_are_those_of_the_blocking_functions() -> None:
    async def main() -> None:
        array = await aio.create_array(None, shape=3)
        with pytest.raises(oz.SelectionError, match="out of bounds"):
            await array.getitem(5)
        with pytest.raises(AttributeError, match=r"\.blocking"):
            array.oindex  # noqa: B018 - the access is what is tried

    asyncio.run(main())
