"""End, stop or starve a writer at each of its changes, and check what others then find.

Runs in a process that has `shim.c` preloaded. It never uses the library itself, so that it has no
threads, and forks a child for everything that does.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import omnizarr as oz
from omnizarr.errors import OmnizarrError
from omnizarr.stores import MemoryStore, leases
from tests.crash.children import COUNT, EXIT, FULL, OFF, REACHED, SHIM, STOP, Child, call
from tests.crash.operations import (
    ABOVE,
    AT_END,
    AT_TARGET,
    CHUNKS,
    OPERATIONS,
    Format,
    hold_x,
    prepare,
    write_beside,
)
from tests.crash.places import ROOTS, Place
from tests.crash.views import (
    View,
    chunks_agree,
    entry_of,
    look,
    look_by_zarr,
    look_into,
    nodes,
    plain,
    said,
    stale,
    wrong,
)

READ = 3.0  # seconds in which readers beside a stopped writer should end
LEASE = 0.4  # seconds after which the lock of a stopped writer is taken over
MOMENTS = 200  # at which a writer is killed
SOON = 0.6  # seconds after which a process beside a stopped one is taken to wait for it
CHANGES = (
    *("set", "set_new", "set_first", "set_if", "set_many", "set_parts", "set_partial"),
    *("erase", "erase_if", "erase_many", "erase_prefix", "change_if", "change_keys"),
)
_numbers = itertools.count()


@dataclass
class Run:
    """One operation on one kind of store in one format."""

    folder: Path
    name: str
    zarr_format: Format
    kind: str = "directory"
    server: str = ""
    calls: bool = False  # count the calls of the store's methods, not those that change files

    def __post_init__(self) -> None:
        self.operation = OPERATIONS[self.name]
        leases.LEASE = LEASE
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start = self.place("start")
        ready = self.operation.prepare or prepare
        self.must(lambda: (ready(self.start, self.zarr_format), self.start.close()))
        ended = self.start.copy(self._path("after"))
        log = os.open(self.folder / "log", os.O_CREAT | os.O_RDWR | os.O_TRUNC)
        self.must(self.act, ended, COUNT, 0, log)
        self.changes = os.pread(log, 2**24, 0).decode().splitlines()
        os.close(log)
        self.known: list[str] = []
        self.before, self.after = (nodes(self.must(self.look, p)) for p in (self.start, ended))
        self.known = [*self.before, *self.after]
        self.before_by_zarr = self.must(look_by_zarr, self.start, self.known)
        self.after_by_zarr = self.must(look_by_zarr, ended, self.known)
        self.twice_outcome, _, twice, _ = self.tried(ended, self.operation.act)
        self.twice = nodes(twice)

    def place(self, name: str) -> Place:
        path = self._path(name)
        path.mkdir(parents=True)
        return Place(self.kind, path, self.server, self.zarr_format)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}-{os.getpid()}-{next(_numbers)}"

    def must(self, function: Callable[..., Any], *given: Any) -> Any:
        outcome, result = call(function, *given)
        if outcome != "ok":
            raise RuntimeError(f"{self.name}, format {self.zarr_format}: {outcome} {result}")
        return result

    def act(self, place: Place, mode: int, point: int = 0, log: int = -1) -> None:
        """Run the operation in this process, armed."""
        if self.calls:
            _count_calls(type(place.root()), mode, point, log)
        else:
            SHIM.crash_arm(os.path.realpath(place.folder).encode(), mode, point, log)
        self.operation.act(place)
        place.close()

    def look(self, place: Place) -> View:
        return look(place, self.known, self.operation.promise == "consolidate")

    def points(self, sample: int | None, seed: int) -> list[int]:
        """Return the numbers of the changes to be tried: all, or a sample."""
        self.bad: list[str] = []
        every = range(1, len(self.changes) + 1)
        if sample is None or sample >= len(every):
            return [*every]
        return sorted(random.Random(seed).sample(every, sample))

    def report(self, point: int, text: str | None) -> None:
        """Add what is wrong at a point, without what differs from run to run."""
        if text:
            short = re.sub(rf"{re.escape(str(self.folder))}/[\w-]+|[0-9a-f]{{8}}\w+", "…", text)
            change = " ".join(self.changes[point - 1 : point])
            self.bad.append(f"{short} [point {point}, after {change}]")

    # Killed writers

    def killed(self, sample: int | None, seed: int) -> list[str]:
        """End a writer after each change, and check the state that it leaves."""
        seen: set[str] = set()
        for point in self.points(sample, seed):
            place = self.start.copy(self._path("killed"))
            outcome, text = call(self.act, place, EXIT, point)
            if outcome not in ("killed", "ok"):
                self.report(point, f"{outcome}: {text}")
            for problem in self.check(place) if self._is_new(place, seen) else ():
                self.report(point, problem)
            place.remove()
        return self.bad

    def moments(self, sample: int | None, seed: int) -> list[str]:
        """Kill a writer at random moments, and open what is left here and by zarr-python.

        The first look is all: `killed` does the rest, after each change.
        """
        chance, seen, self.bad = random.Random(seed), set[str](), []
        began, alone = time.monotonic(), self.start.copy(self._path("alone"))
        self.must(self.act, alone, OFF)
        alone.remove()
        longest = time.monotonic() - began
        for _ in range(sample or MOMENTS):
            place = self.start.copy(self._path("moment"))
            child = Child(self.act, place, OFF)
            if child.wait(chance.random() * longest) != "ended":
                os.kill(child.pid, signal.SIGKILL)
                child.wait()
            child.close()
            if self._is_new(place, seen):
                for problem in self.must(lambda place=place: [*self._opened(place)]):
                    self.report(0, problem)
            place.remove()
        return self.bad

    def _is_new(self, place: Place, seen: set[str]) -> bool:
        """Return True for a state that was not yet seen, and add it."""
        digest = place.digest()
        new = digest not in seen
        seen.add(digest)
        return new

    def _opened(self, place: Place) -> Iterator[str]:
        """Yield what is wrong with what this library and zarr-python find."""
        by_zarr = look_by_zarr(place, self.known)
        seen = self.wrong(by_zarr, self.before_by_zarr, self.after_by_zarr)
        problems = self.wrong(self.look(place)), seen and f"zarr-python: {seen}", _examine(place)
        yield from filter(None, problems)

    def wrong(
        self, view: View, before: View | None = None, after: View | None = None
    ) -> str | None:
        if before is None or after is None:
            before, after = self.before, self.after
        return wrong(view, before, after, self.operation, self.kind)

    def check(self, place: Place) -> Iterator[str]:
        """Yield what is wrong with the state that a dead writer left."""
        view, problems = self.must(lambda: (self.look(place), [*self._opened(place)]))
        if problems:
            yield "; ".join(problems)
            return
        yield from self.must(lambda: [*self._derived(place)])
        yield from self._again(place, nodes(view))
        yield from self._repair(place)
        yield from self._adopt(place, nodes(view))
        if self.operation.resume is not None:
            # Not on a copy, since jobs know the paths of their places.
            complete = nodes(view) == self.after
            outcome, text, view, left = self.must(self._tried, place, self.operation.resume)
            if outcome == "NodeExists" and complete:
                return  # nothing is left of the job, so that there is nothing to resume
            if outcome != "ok":
                yield f"resume=True: {outcome} {text}"
            elif nodes(view) != self.after:
                yield f"resume=True: {self.wrong(view) or 'not the new state'}"
            elif left := [name for name in left if "lock" not in name and "partial" not in name]:
                yield f"resume=True leaves {left[:3]}"

    def tried(
        self, state: Place, act: Callable[[Place], object]
    ) -> tuple[str, Any, View, list[str]]:
        """Do something with a copy of a state; return its outcome, what is there, what is left."""
        place = state.copy(self._path("tried"))
        found: tuple[str, Any, View, list[str]] = self.must(self._tried, place, act)
        place.remove()
        return found

    def _tried(self, place: Place, act: Callable[[Place], object]) -> Any:
        outcome = "ok", None
        try:
            act(place)
            place.close()
        except OmnizarrError as e:
            outcome = type(e).__name__, str(e)
        except Exception as e:
            outcome = f"bare {type(e).__name__}", str(e)
        return *outcome, self.look(place), place.leftovers()

    def _again(self, state: Place, view: View) -> Iterator[str]:
        outcome, text, now, left = self.tried(state, self.operation.act)
        if outcome == "ok":
            staged = [name for name in left if "staged" in name]
            locks = self.kind not in ("ZIP", "fsspec")  # without them it is left to `repair`
            if staged and locks and self.operation.resume is not None:
                yield f"again leaves {staged[:2]}"
            if nodes(now) not in (self.after, self.twice):
                yield f"again: {self.wrong(now) or 'not the new state'}"
        elif outcome not in ("NodeExists", "NodeNotFound", "Conflict", self.twice_outcome):
            yield f"again: {outcome} {text}"
        elif self.wrong(now):
            yield f"again, refused: {self.wrong(now)}"
        elif view != self.after and self.operation.promise != "move":
            advice = ("overwrite=True", "resume=True", "repair", "Resize")
            if not any(word in str(text) for word in advice):
                yield f"again: {outcome} without advice: {text}"
            if self.operation.force is not None:
                outcome, text, now, _ = self.tried(state, self.operation.force)
                if outcome != "ok" or nodes(now) != self.after:
                    yield f"overwrite=True: {outcome} {text} {self.wrong(now) or ''}"

    def _derived(self, place: Place) -> Iterator[str]:
        """Yield what jobs lose that read the state: each says that it is in part, or loses nothing.

        A backup of the old state is not to lose anything in any case.
        """
        for name in filter(place.exists, ROOTS):
            for job, act in DERIVED.items():
                target = MemoryStore()
                if job == "a backup":
                    if f"{name}:" not in self.before:
                        continue
                    oz.copy(self.start.root(name, read_only=True), target)
                text = None
                try:
                    act(place.root(name, read_only=True), target, self.zarr_format)
                except OmnizarrError as e:
                    text = str(e)
                place.close()
                self.start.close()
                if text is None or job == "a backup":
                    yield from (f"{job} of {name}: {bad}" for bad in self._lost(name, target, job))
                elif f"{name}:" in self.before and "interrupted" not in text:
                    yield f"{job} of {name}: the error does not say what was interrupted: {text}"

    def _lost(self, name: str, store: MemoryStore, job: str) -> Iterator[str]:
        """Yield nodes that are neither old nor new, or missing, in what a job has made."""
        found = look_into(store, name)
        for key in {**self.before, **self.after, **found}:
            if not key.startswith(f"{name}:") or "::" in key:
                continue
            entry, *either = (e and plain(e, job) for e in (found.get(key), *self._either(key)))
            if entry in either or (entry and chunks_agree(entry, *either)):
                continue
            if self.operation.rule == "both" and entry is None and len(found) >= len(self.before):
                continue  # it was moved
            yield f"{key} {said(entry, *either)}"

    def _repair(self, state: Place) -> Iterator[str]:
        place = state.copy(self._path("repair"))
        outcome, text, now, left = self.must(self._tried, place, _repair)
        if outcome != "ok":
            yield f"repair: {outcome} {text}"
        below = "out:" if not self.operation.target else f"{self.operation.target}/"
        if any(key.startswith(below) for key in nodes(now)):
            # Nodes below one that is incomplete are never removed: somebody may have made them.
            left = [name for name in left if "incomplete" not in name and "journal" not in name]
        problems = [self.wrong(now), f"leaves {left[:3]}" if left else None, stale(now)]
        yield from (f"repair: {text}" for text in problems if text)
        place.remove()

    def _adopt(self, state: Place, view: View) -> Iterator[str]:
        """Create an array where one was, or was to be: it has no values."""
        known = {**self.after, **self.before}
        gone = [k for k, e in known.items() if k not in view and e[0] == "array"]
        gone = [k for k in gone if f"{k.partition(':')[0]}:" in view or k.endswith(":")]
        if not gone:
            return
        place = state.copy(self._path("adopt"))
        for key in gone:
            outcome, text = call(_values_of_a_new_array, place, key)
            if outcome not in ("ok", "NodeExists"):
                yield f"a new array {key}: {outcome} {text}"
            elif outcome == "ok" and text:
                yield f"a new array {key} has {text} values of the old one"
        place.remove()

    # Full disks

    def full(self, sample: int | None, seed: int) -> list[str]:
        """Refuse every call that needs room from each change on."""
        for point in self.points(sample, seed):
            place = self.start.copy(self._path("full"))
            outcome, text = call(self.act, place, FULL, point)
            view = self.must(self.look, place)
            if outcome.startswith(("bare", "hung", "exit")):
                self.report(point, f"full disk: {outcome} {text}")
            kept = nodes(view) == (self.after if outcome == "ok" else self.before)
            either = self.operation.rule in ("chunks", "nodes")
            either = either or self.operation.promise in ("resize", "delete")
            either = either or "was changed, but not its copy" in str(text)
            if not kept and (self.wrong(view) or not either):
                what = self.wrong(view) or "the new state, in spite of the error"
                self.report(point, f"full disk, {outcome} ({str(text)[:80]}): {what}")
            for problem in self._again(place, nodes(view)):
                self.report(point, f"after a full disk, {problem}")
            place.remove()
        return self.bad

    # Stopped writers

    def paused(self, sample: int | None, seed: int) -> list[str]:
        """Stop a writer after each change; others read and write meanwhile."""
        seconds = self.operation.beside
        chosen = [*seconds] if sample is None else [random.Random(seed).choice(seconds)]
        orders = {second: self._orders(self._second(second)) for second in chosen}
        for point in self.points(sample, seed):
            for second in chosen:
                place = self.start.copy(self._path("paused"))
                for problem in self._beside(place, point, second, orders[second]):
                    self.report(point, f"beside {second}: {problem}")
                place.remove()
        return self.bad

    def _second(self, name: str) -> Callable[[Place], object]:
        """Return what a second writer does: another thing, the same, or the rest of it."""
        other = self.operation.resume if name == "resume" else SECONDS[name]
        return other or self.operation.act

    def _orders(self, other: Callable[[Place], object]) -> dict[tuple[bool, bool], list[View]]:
        """Return what may be there in the end, by whether each of two writers succeeded."""
        first, then = self.start.copy(self._path("one")), self.start.copy(self._path("two"))
        call(_closed, self.operation.act, first)
        outcome = call(_closed, other, then)[0]
        only = nodes(self.must(self.look, then))
        both = [self.tried(first, other), self.tried(then, self.operation.act)]
        ended = [nodes(view) for done, _, view, _ in both if done == "ok" and outcome == "ok"]
        return {
            (True, True): ended or [self.after],
            (True, False): [self.after],
            (False, True): [only],
            (False, False): [self.before],
        }

    def _beside(
        self, place: Place, point: int, second: str, orders: dict[tuple[bool, bool], list[View]]
    ) -> Iterator[str]:
        reader = Child(_read_later, place)
        other = self._second(second)
        late = Child(hold_x, place) if second == "write" else None
        for child in filter(None, (reader, late)):
            child.wait()
        writer = Child(self.act, place, STOP, point)
        children = [child for child in (reader, writer, late) if child]
        if writer.wait() == "stopped":
            reader.go_on()
            anew = Child(self.look, place)
            early = [child for child in (reader, anew) if child.wait(READ) == "ended"]
            if late is None:
                late = Child(_closed, other, place)
            else:
                late.go_on()
            late.wait(SOON)
            writer.go_on()
            children = [reader, writer, late, anew]
            results = [child.result for child in (writer, late, reader, anew)]
            for number, child in ((2, reader), (3, anew)):
                if child not in early and results[number][0] == "ok":
                    results[number] = "late", None  # it may have met the second writer
            yield from self._judge(place, results, orders)
        for child in children:
            if child.wait(0) != "ended":
                os.kill(child.pid, signal.SIGKILL)
                child.wait()
            child.close()

    def _judge(
        self,
        place: Place,
        results: list[tuple[str, Any]],
        orders: dict[tuple[bool, bool], list[View]],
    ) -> Iterator[str]:
        for name, (outcome, text) in zip(
            ("writer", "second writer", "reader", "new reader"), results, strict=True
        ):
            if outcome.startswith(("bare", "hung", "exit", "killed")):
                yield f"{name}: {outcome} {text}"
        writer, late, reader, anew = results
        if reader[0] == "ok":
            for key, entry in reader[1].items():
                either = [
                    e and (e[0], entry[1], *e[2:]) for e in self._either(key)
                ]  # but attributes
                if entry in either or entry[:2] in GONE:
                    continue
                if self.operation.rule != "chunks" or not chunks_agree(entry, *either):
                    yield f"old handle: {key} {said(entry, *either)}"
        if anew[0] == "ok" and (problem := self.wrong(anew[1])):
            yield f"new reader: {problem}"
        final = self.must(self.look, place)
        allowed = orders[writer[0] == "ok", late[0] == "ok"]
        if nodes(final) not in allowed and not self._mixed(
            nodes(final), [*allowed, self.before, self.after]
        ):
            ends = f"{writer[0]}, then {late[0]} ({str(late[1])[:80]})"
            what = self.wrong(final, self.before, allowed[0]) or "not what both did"
            yield f"in the end ({ends}): {what}"

    def _either(self, key: str) -> tuple[Any, Any]:
        return self.before.get(key), self.after.get(key)

    def _mixed(self, final: View, allowed: list[View]) -> bool:
        """Return True if each chunk is of one of two writers of chunks."""
        if self.operation.rule != "chunks" or any(final.keys() != each.keys() for each in allowed):
            return False
        return all(
            chunks_agree(e, *(each[k] for each in allowed))
            for k, e in final.items()
            if e[0] == "array"
        )


SECONDS: dict[str, Callable[[Place], object] | None] = {
    "same": None,
    "write": write_beside,
    **ABOVE,
    **AT_TARGET,
    **AT_END,
}
DERIVED: dict[str, Callable[[Any, MemoryStore, Any], object]] = {
    "a copy": lambda source, target, _: oz.copy(source, target),
    "a backup": lambda source, target, _: oz.copy(source, target, update=True, delete=True),
    "a conversion": lambda source, target, zarr_format: oz.convert(
        source, target, zarr_format=5 - zarr_format
    ),
}
GONE = [("error", "NodeChanged"), ("error", "NodeNotFound")]


def _read_later(place: Place) -> View:
    """Open all arrays, stop, and then read them."""
    handles = {}
    for name in filter(place.exists, ROOTS):
        try:
            root = oz.open(place.root(name, read_only=place.kind == "ZIP"), mode="r")
        except oz.NodeNotFound:  # a job will make it
            continue
        members = root.members(max_depth=None) if isinstance(root, oz.Group) else [("", root)]
        handles |= {f"{name}:{path}": node for path, node in members if isinstance(node, oz.Array)}
    for handle in handles.values():
        handle[(0,) * handle.ndim]
    os.kill(os.getpid(), signal.SIGSTOP)
    found: View = {}
    for key, handle in handles.items():
        try:
            found[key] = entry_of(handle)
        except OmnizarrError as e:
            found[key] = "error", type(e).__name__, str(e)
    return found


def _closed(act: Callable[[Place], object], place: Place) -> None:
    act(place)
    place.close()


def _examine(place: Place) -> str | None:
    """Return an unexpected error of `verify` or `validate`."""
    for name in filter(place.exists, ROOTS):
        for check in (oz.verify, oz.validate):
            try:
                check(place.root(name, read_only=place.kind == "ZIP"))
            except oz.NodeNotFound:
                continue
            except Exception as e:
                return f"{check.__name__}: {type(e).__name__} {e}"
    place.close()
    return None


def _repair(place: Place) -> None:
    for name in ROOTS:
        if place.exists(name):
            oz.repair(place.root(name), dry_run=False, older_than=0, remove_jobs=True)
    place.close()


def _values_of_a_new_array(place: Place, key: str) -> int:
    name, _, path = key.partition(":")
    new = oz.create_array(
        place.root(name), path=path, shape=(6, 4), chunks=CHUNKS, dtype="i4",
        zarr_format=place.zarr_format,
    )  # fmt: skip
    found = int(np.count_nonzero(new[...]))
    place.close()
    return found


def _count_calls(store: type, mode: int, point: int, log: int) -> None:
    """Count the calls of a store's methods that change it, and end or stop at one of them."""
    inside, started, numbers = threading.local(), itertools.count(1), itertools.count(1)

    def wrapped(method: Any) -> Any:
        def counted(self: Any, *given: Any, **options: Any) -> Any:
            if getattr(inside, "depth", 0):
                return method(self, *given, **options)
            if mode == FULL and point <= next(started):
                raise oz.StoreError(os.strerror(errno.ENOSPC))  # as stores say it
            inside.depth = 1
            try:
                return method(self, *given, **options)
            finally:
                inside.depth = 0
                number = next(numbers)
                if log >= 0:
                    os.write(log, f"{number} {method.__name__} {str(given[:1])[:80]}\n".encode())
                if number == point and mode == EXIT:
                    os._exit(REACHED)
                if number == point and mode == STOP:
                    os.kill(os.getpid(), signal.SIGSTOP)

        return counted

    for name in CHANGES:
        method = getattr(store, name, None)
        if method is not None and mode != OFF:
            setattr(store, name, wrapped(method))
