"""Suites for stores that are shared by threads and processes."""

from __future__ import annotations

import os
import pickle
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from omnizarr import stores
from omnizarr.errors import InvalidArgument, StoreError
from omnizarr.stores import Range, SetsIf, Store, Versioned
from omnizarr.testing.stores.access import BAD_KEYS, TEN, Suite

FORK_SECONDS = 60


def run_in_threads(work: Callable[[int], None], count: int) -> None:
    """Run `work` in several threads concurrently, and raise the first error of one of them."""
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def run_in_fork(work: Callable[[], None]) -> None:
    """Run `work` in a forked child, which must succeed before a time-out."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    end = time.monotonic() + FORK_SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0, "the child failed; see its output"
            return
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail(f"the child hung for {FORK_SECONDS} seconds")


class ThreadTests(Suite):
    """Threads share one store object."""

    def test_threads_write_read_and_erase_at_once(self, store: Store) -> None:
        def work(number: int) -> None:
            for i in range(8):
                key, value = f"t{number}/k{i}", f"{number} {i}".encode() * 50
                store.set(key, value)
                assert store.get(key) == value
                if i % 2:
                    store.erase(key)

        run_in_threads(work, 6)
        for number in range(6):
            found = [store.get(f"t{number}/k{i}") for i in range(8)]
            assert found == [None if i % 2 else f"{number} {i}".encode() * 50 for i in range(8)]

    def test_readers_see_the_old_value_or_the_new_one(self, store: Store) -> None:
        values = [bytes([i]) * (20_000 + i) for i in range(3)]
        store.set("k", values[0])

        def work(number: int) -> None:
            for i in range(12):
                if number == 0:
                    store.set("k", values[i % 3])
                else:
                    assert store.get("k") in values

        run_in_threads(work, 4)


class PicklableTests(Suite):
    """A store can be sent to another process."""

    def test_a_pickled_store_has_the_same_values(self, store: Store) -> None:
        self.put(store, {"a/b": b"1", "c": b"2"})
        again: Any = pickle.loads(pickle.dumps(store))
        assert type(again) is type(store)
        assert again.read_only == store.read_only
        assert [again.get(key) for key in ("a/b", "c", "d")] == [b"1", b"2", None]


class SharedTests(Suite):
    """Two store objects for the same storage see each other's values."""

    def test_a_pickled_store_is_the_same_place(self, store: Store) -> None:
        again: Any = pickle.loads(pickle.dumps(store))
        assert again == store
        assert hash(again) == hash(store)
        again.set("a/k", b"from there")
        assert store.get("a/k") == b"from there"
        store.set("a/k", b"from here")
        assert again.get("a/k") == b"from here"
        again.erase("a/k")
        assert store.get("a/k") is None

    def test_two_objects_of_one_place_lose_nothing_to_each_other(self, store: Store) -> None:
        copies = [pickle.loads(pickle.dumps(store)) for _ in range(3)]

        def work(number: int) -> None:
            for i in range(10):
                copies[number].set(f"k{number}_{i}", b"%d" % i)

        run_in_threads(work, 3)
        for number in range(3):
            found = [store.get(f"k{number}_{i}") for i in range(10)]
            assert found == [b"%d" % i for i in range(10)]


class ForkTests(Suite):
    """A store that has been used still works in a forked child and in its parent."""

    pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

    def test_a_forked_child_reads_and_writes(self, store: Store) -> None:
        store.set("before", b"1")
        assert store.get("before") == b"1"

        def child() -> None:
            assert store.get("before") == b"1"
            assert stores.get_many(store, [("before", None), ("x", None)]) == [b"1", None]
            store.set("child", b"2")
            assert store.get("child") == b"2"

        run_in_fork(child)
        assert store.get("before") == b"1"
        assert store.get("child") == b"2"
        store.set("after", b"3")
        assert store.get("after") == b"3"

    def test_a_fork_while_threads_use_the_store_does_not_hang(self, store: Store) -> None:
        store.set("k", b"value")
        stop = threading.Event()

        def use() -> None:
            while not stop.is_set():
                store.get("k")

        def expect() -> None:
            assert store.get("k") == b"value"

        threads = [threading.Thread(target=use) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                run_in_fork(expect)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        expect()


class ClosableTests(Suite):
    """`close` and `with`."""

    @pytest.mark.parametrize("used", [True, False])
    def test_closing_is_idempotent_and_with_closes(self, store: Any, used: bool) -> None:
        if not used:
            store.close()
            return
        with store as entered:
            assert entered is store
            store.set("k", b"1")
        store.close()
        store.close()

    def test_closing_while_threads_use_it_lets_each_call_succeed_or_raise(self, store: Any) -> None:
        closed, stored = threading.Event(), [set[str](), set[str]()]

        def use(number: int) -> None:
            if number == len(stored):
                time.sleep(0.02)
                store.close()
                closed.set()
                return
            try:
                for count in range(1000):
                    key = f"{number}/{count % 10}"
                    store.set(key, TEN)
                    stored[number].add(key)
                    assert store.get(key) == TEN
                    if closed.is_set():
                        break
            except StoreError as e:
                assert "closed" in str(e)

        run_in_threads(use, len(stored) + 1)
        try:  # some stores can be used after they were closed
            assert all(store.get(key) == TEN for keys in stored for key in keys)
        except StoreError as e:
            assert "closed" in str(e)


class VersionedTests(Suite):
    """`generation` and `get_versioned`."""

    # Seconds until a store with a coarse clock trusts what it just wrote.
    settles: float = 0

    @pytest.fixture
    def versioned(self, store: Store) -> Versioned:
        if not isinstance(store, Versioned):
            pytest.fail(f"{store!r} has no generation and get_versioned")
        return store

    def test_a_missing_key_has_no_generation(self, versioned: Versioned) -> None:
        assert versioned.generation("a/k") is None
        assert versioned.get_versioned("a/k") == (None, None)
        assert versioned.get_versioned("a/k", Range(0, 1)) == (None, None)

    def test_a_generation_stays_until_the_value_is_replaced(
        self, store: Store, versioned: Versioned
    ) -> None:
        self.put(store, {"k": b"one", "l": b"l"})
        time.sleep(self.settles)
        first = versioned.generation("k")
        assert isinstance(first, str)
        assert versioned.get_versioned("k") == (b"one", first)
        self.put(store, {"l": b"other"})
        assert store.get("k") == b"one"
        assert versioned.generation("k") == first
        self.put(store, {"k": b"two"})
        second = versioned.generation("k")
        assert second not in (first, None)
        store.erase("k")
        assert versioned.generation("k") is None
        self.put(store, {"k": b"three"})
        assert versioned.generation("k") not in (first, second, None)

    def test_a_part_comes_with_the_generation_of_the_whole(
        self, store: Store, versioned: Versioned
    ) -> None:
        self.put(store, {"k": TEN})
        time.sleep(self.settles)
        for part in (Range(), Range(2, 3), Range(-3), Range(20)):
            assert versioned.get_versioned("k", part) == (part.of(TEN), versioned.generation("k"))

    def test_many_values_of_one_length_are_told_apart(
        self, store: Store, versioned: Versioned
    ) -> None:
        seen = set()
        for i in range(20):
            self.put(store, {"k": b"%05d" % i})
            value, generation = versioned.get_versioned("k")
            assert value == b"%05d" % i
            seen.add(generation)
        assert len(seen) == 20

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_a_key_that_leads_elsewhere_has_no_generation(
        self, versioned: Versioned, key: str
    ) -> None:
        with pytest.raises(InvalidArgument):
            versioned.generation(key)
        with pytest.raises(InvalidArgument):
            versioned.get_versioned(key)


class ConditionalTests(VersionedTests):
    """`set_if`: compare-and-set."""

    @pytest.fixture
    def conditional(self, store: Store) -> SetsIf:
        if not isinstance(store, SetsIf):
            pytest.fail(f"{store!r} has no set_if")
        return store

    def test_a_key_is_created_only_once(self, store: Store, conditional: SetsIf) -> None:
        assert conditional.set_if("a/k", b"one", None) is True
        assert conditional.set_if("a/k", b"two", None) is False
        assert store.get("a/k") == b"one"

    def test_a_value_is_replaced_only_if_it_is_the_one_known(
        self, store: Store, versioned: Versioned, conditional: SetsIf
    ) -> None:
        store.set("k", b"one")
        first = versioned.generation("k")
        assert conditional.set_if("k", memoryview(b"two"), first) is True
        assert store.get("k") == b"two"
        assert conditional.set_if("k", b"three", first) is False
        assert store.get("k") == b"two"
        store.erase("k")
        assert conditional.set_if("k", b"four", first) is False
        assert store.get("k") is None

    def test_a_key_that_leads_elsewhere_is_not_set(self, conditional: SetsIf) -> None:
        with pytest.raises(InvalidArgument):
            conditional.set_if("../k", b"x", None)

    def test_threads_that_count_lose_nothing(
        self, store: Store, versioned: Versioned, conditional: SetsIf
    ) -> None:
        store.set("n", b"0")

        def count(number: int) -> None:
            done = 0
            while done < 8:
                value, generation = versioned.get_versioned("n")
                done += conditional.set_if("n", b"%d" % (int(value or b"0") + 1), generation)

        run_in_threads(count, 4)
        assert store.get("n") == b"32"
