"""End, stop or starve a writer at each of its changes, and check what others then find.

Runs in a process that has `shim.c` preloaded. It never uses the library itself, so that it has no
threads, and forks a child for everything that does.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import itertools
import os
import pickle
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import zarr

import omnizarr as oz
from omnizarr.concurrency import leases
from omnizarr.errors import OmnizarrError
from tests.crash.operations import CHUNKS, OPERATIONS, Format, Operation, hold_x, prepare, write_beside
from tests.crash.places import FILES, ROOTS, Place

OFF, COUNT, EXIT, STOP, FULL = range(5)
REACHED = 77  # the exit code of a process that ended at its point
LONGEST = 20.0  # seconds until what runs alone must have ended
SOON = 0.6  # seconds after which a process beside a stopped one is taken to wait for it
CHANGES = (
    *("set", "set_new", "set_first", "set_if", "set_many", "set_parts", "set_partial"),
    *("erase", "erase_if", "erase_many", "erase_prefix", "copy_values", "rename"),
)
SHIM = ctypes.CDLL(None)
LOADED: set[str] = set(sys.modules)
_numbers = itertools.count()

Entry: TypeAlias = tuple[Any, ...]
View: TypeAlias = dict[str, Entry]


class Child:
    """A forked process that calls a function; `wait` returns its state."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.file = os.memfd_create("result")
        self.pid = os.fork()
        self.code: int | None = None
        if self.pid:
            return
        try:
            warnings.simplefilter("ignore")
            try:
                result = "ok", function()
            except OmnizarrError as e:
                result = type(e).__name__, str(e)
            except BaseException as e:
                result = f"bare {type(e).__name__}", str(e)
            SHIM.crash_arm(b"/", OFF, 0, -1)
            loaded = [name for name in sys.modules if name not in LOADED]
            os.write(self.file, pickle.dumps((result, loaded)))
        finally:
            os._exit(0)

    def wait(self, seconds: float = LONGEST) -> str:
        """Return "ended", "stopped" or "running" after at most some seconds."""
        end, pause = time.monotonic() + seconds, 0.0002
        while self.code is None:
            found, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if found and os.WIFSTOPPED(status):
                return "stopped"
            if found:
                self.code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                return "running"
            else:
                time.sleep(pause)
                pause = min(2 * pause, 0.003)
        return "ended"

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    @property
    def result(self) -> tuple[str, Any]:
        """The word "ok" and the result, or the class of an error and its text."""
        if self.wait() != "ended":
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
            return "hung", f"still running after {LONGEST:g} s"
        if self.code:
            return ("killed" if self.code == REACHED else f"exit {self.code}"), None
        found: tuple[str, Any]
        found, loaded = pickle.loads(os.pread(self.file, 2**24, 0))
        for name in loaded:  # so that later children need not
            LOADED.add(name)
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        return found

    def close(self) -> None:
        os.close(self.file)


def call(function: Callable[[], Any]) -> tuple[str, Any]:
    """Return the result of a function that runs in a child."""
    child = Child(function)
    try:
        return child.result
    finally:
        child.close()


# Views


def _entry(node: Any) -> Entry:
    attributes = repr(sorted(dict(node.attrs).items()))
    if not hasattr(node, "shape"):
        return "group", attributes
    values = np.asarray(node[...])
    return "array", attributes, values.dtype.str, values.shape, values.tobytes()


def look(place: Place, known: Iterable[str] = (), consolidated: bool = False) -> View:
    """Return all nodes and values of a place; those that are known are also asked for by path."""
    found: View = {}
    for name in ROOTS:
        root = place.root(name, read_only=place.kind == "ZIP") if place.exists(name) else None
        if root is None:
            continue
        _add(found, f"{name}:", lambda root=root: oz.open(root, mode="r", use_consolidated=False))
        if found.get(f"{name}:", ("",))[0] == "group":
            top = oz.open_group(root, mode="r", use_consolidated=False)
            for path, member in top.members(max_depth=None):
                _add(found, f"{name}:{path}", lambda member=member: member)
        for key in known:
            if key.startswith(f"{name}:") and key not in found:
                path = key.partition(":")[2]
                _add(found, key, lambda path=path, root=root: oz.open(root, mode="r", path=path))
        if consolidated:
            _add_consolidated(found, name, root)
    place.close()
    return found


def _add(found: View, key: str, get: Callable[[], Any]) -> None:
    try:
        found[key] = _entry(get())
    except oz.NodeNotFound as e:
        found[f"no {key}"] = "message", str(e)
    except OmnizarrError as e:
        found[key] = "error", type(e).__name__, str(e)


def _add_consolidated(found: View, name: str, root: Any) -> None:
    try:
        group = oz.open_consolidated(root, mode="r")
        found[f"{name}:consolidated"] = tuple(
            (path, *_entry(member)[:2]) for path, member in sorted(group.members(max_depth=None))
        )
    except OmnizarrError:
        pass  # there is none


def look_by_zarr(place: Place, known: Iterable[str] = ()) -> View:
    """Return what zarr-python finds in directories."""
    found: View = {}
    for name in ROOTS if place.kind == "directory" else ():
        for key in ["", *(k.partition(":")[2] for k in known if k.startswith(f"{name}:"))]:
            if place.exists(name) and f"{name}:{key}" not in found:
                _add_by_zarr(found, name, place.root(name), key)
    return found


def _add_by_zarr(found: View, name: str, root: str, path: str) -> None:
    where = f"{name}:{path}"
    try:
        try:
            node: Any = zarr.open_array(root, path=path, mode="r")
        except (FileNotFoundError, zarr.errors.NodeTypeValidationError, ValueError):
            node = zarr.open_group(root, path=path, mode="r", use_consolidated=False)
        found[where] = _entry(node)
        if found[where][0] == "group":
            for inner, member in node.members(max_depth=None, use_consolidated_for_children=False):
                found[f"{name}:{path}/{inner}".replace(":/", ":")] = _entry(member)
    except (FileNotFoundError, KeyError):
        pass
    except Exception as e:
        found[where] = "error", type(e).__name__, str(e)


# What is allowed


def nodes(view: View) -> View:
    return {key: entry for key, entry in view.items() if not key.startswith("no ")}


def wrong(view: View, before: View, after: View, operation: Operation, kind: str) -> str | None:
    """Return what is wrong with a view, or None."""
    found = nodes(view)
    if found in (before, after):
        return None
    if operation.rule == "absent" or (operation.promise == "overwrite" and kind != "directory"):
        changed = [key for key in before | after if before.get(key) != after.get(key)]
        if found == {k: e for k, e in after.items() if k not in changed}:
            return None
        targets = operation.targets or (min(changed, key=len),)
        if found == {k: e for k, e in before.items() if not k.startswith(targets)}:
            return None
    if operation.promise == "in-place job":
        (target,) = operation.targets
        text = str(view.get(f"no {target}", view.get(target)))
        if "resume" in text and found == {k: e for k, e in before.items() if k != target}:
            return None
    if operation.rule == "both":
        return _wrong_move(found, before, after)
    bad = []
    for key in sorted(before | after | found):
        entry, either = found.get(key), (before.get(key), after.get(key))
        if entry in either and operation.rule in ("nodes", "chunks"):
            continue
        if operation.rule == "chunks" and entry is not None and _blocks_agree(entry, *either):
            continue
        if entry != either[0] or entry != either[1]:
            bad.append(f"{key} {_said(entry, *either)}")
    if bad or operation.rule in ("nodes", "chunks"):
        return "; ".join(bad[:4]) or None
    return "old and new nodes together"


def _wrong_move(found: View, before: View, after: View) -> str | None:
    old = {k: e for k, e in before.items() if k not in after}
    new = {k: e for k, e in after.items() if k not in before}
    if any(found.get(k) != e for k, e in before.items() if k in after):
        return "another node has changed"
    values = {k: e for k, e in new.items() if e in old.values() or k.count("/") > 1}
    olds = [k for k, e in old.items() if found.get(k) == e]
    news = [k for k, e in values.items() if found.get(k) == e]
    others = [k for k, e in found.items() if e not in (before.get(k), after.get(k))]
    if others or len(olds) not in (0, len(old)) or len(news) not in (0, len(values)):
        return f"half of a node: {sorted(set(found) & (set(old) | set(new)))}"
    return None if olds or news else "the node is at neither path"


def _said(entry: Entry | None, old: Entry | None, new: Entry | None) -> str:
    if entry is None:
        return "is missing"
    if entry[0] in ("error", "group"):
        return f"is {entry[:3]}"
    if entry == old or entry == new:
        return f"is {'old' if entry == old else 'new'}"
    values = np.frombuffer(entry[4], entry[2])
    rest = f"{int((values == 0).sum())} of {values.size} values missing"
    return f"is neither old nor new: shape {entry[3]}, {rest}"


def _blocks_agree(entry: Entry, *either: Entry | None) -> bool:
    """Return True if each chunk of an array is old or new."""
    known = [e for e in either if e is not None and e[:4] == entry[:4] and e[0] == "array"]
    if entry[0] != "array" or not known:
        return False
    arrays = [np.frombuffer(e[4], e[2]).reshape(e[3]) for e in (entry, *known)]
    return all(
        any(np.array_equal(arrays[0][box], other[box]) for other in arrays[1:])
        for box in _boxes(arrays[0].shape)
    )


def _boxes(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    steps = zip(shape, itertools.cycle(CHUNKS), strict=False)
    yield from itertools.product(
        *([slice(i, i + step) for i in range(0, size, step)] for size, step in steps)
    )


# Runs


@dataclass
class Found:
    """The points of one operation, and what was wrong at some of them."""

    points: int = 0
    states: int = 0
    bad: list[tuple[int, str]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)


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
        self.found = Found()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start = self.place("start")
        ready = self.operation.prepare or prepare
        self.must(lambda: (ready(self.start, self.zarr_format), self.start.close()))
        ended = self.start.copy(self._path("after"))
        log = os.open(self.folder / "log", os.O_CREAT | os.O_RDWR | os.O_TRUNC)
        self.must(lambda: self.act(ended, COUNT, 0, log))
        self.found.calls = os.pread(log, 2**24, 0).decode().splitlines()
        os.close(log)
        self.known: list[str] = []
        self.before, self.after = (self.must(lambda: nodes(self.look(p))) for p in (self.start, ended))
        self.known = [*self.before, *self.after]
        self.before_by_zarr = self.must(lambda: look_by_zarr(self.start, self.known))
        self.after_by_zarr = self.must(lambda: look_by_zarr(ended, self.known))
        self.twice_outcome, _, self.twice, _ = self.tried(ended, self.operation.act)

    @property
    def count(self) -> int:
        return len(self.found.calls)

    def place(self, name: str) -> Place:
        path = self._path(name)
        path.mkdir(parents=True)
        return Place(self.kind, path, self.server)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}-{os.getpid()}-{next(_numbers)}"

    def must(self, function: Callable[[], Any]) -> Any:
        outcome, result = call(function)
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

    def points(self, sample: int | None, seed: int) -> Iterator[int]:
        """Yield the points to be tried; with no sample, all until one is not reached."""
        if sample is None or sample >= self.count:
            yield from range(1, self.count + 1)
        else:
            yield from sorted(random.Random(seed).sample(range(1, self.count + 1), sample))

    def report(self, point: int, text: str | None) -> None:
        if text:
            self.found.bad.append((point, text))

    # Killed writers

    def killed(self, sample: int | None = None, seed: int = 0) -> Found:
        """End a writer after each change, and check the state that it leaves."""
        seen: set[str] = set()
        for point in self.points(sample, seed):
            place = self.start.copy(self._path("killed"))
            outcome, text = call(lambda: self.act(place, EXIT, point))
            self.found.points += 1
            if outcome not in ("killed", "ok"):
                self.report(point, f"{outcome}: {text}")
            digest = place.digest()
            if digest not in seen:
                seen.add(digest)
                for problem in self.check(place):
                    self.report(point, problem)
            place.remove()
        self.found.states = len(seen)
        return self.found

    def wrong(
        self, view: View, before: View | None = None, after: View | None = None
    ) -> str | None:
        before, after = before or self.before, after or self.after
        return wrong(view, before, after, self.operation, self.kind)

    def check(self, place: Place) -> Iterator[str]:
        """Yield what is wrong with the state that a dead writer left."""
        view, by_zarr, examined = self.must(
            lambda: (self.look(place), look_by_zarr(place, self.known), _examine(place))
        )
        yield from filter(None, [self.wrong(view), examined])
        if text := self.wrong(by_zarr, self.before_by_zarr, self.after_by_zarr):
            yield f"zarr-python: {text}"
        yield from self._again(place, nodes(view))
        yield from self._repair(place)
        yield from self._adopt(place, nodes(view))
        if self.operation.resume is not None:
            outcome, text, view, left = self.tried(place, self.operation.resume)
            if outcome != "ok":
                yield f"resume=True: {outcome} {text}"
            elif nodes(view) != self.after:
                yield f"resume=True: {self.wrong(view) or 'not the new state'}"
            elif left := [name for name in left if "lock" not in name]:
                yield f"resume=True leaves {left[:3]}"

    def tried(
        self, state: Place, act: Callable[[Place], object]
    ) -> tuple[str, Any, View, list[str]]:
        """Do something with a copy of a state; return its outcome, what is there, what is left."""
        place = state.copy(self._path("tried"))
        outcome, text = call(lambda: (act(place), place.close())[1])
        view, left = self.must(lambda: (self.look(place), place.leftovers()))
        place.remove()
        return outcome, text, view, left

    def _again(self, state: Place, view: View) -> Iterator[str]:
        outcome, text, now, _ = self.tried(state, self.operation.act)
        if outcome == "ok":
            if nodes(now) not in (self.after, self.twice):
                yield f"again: {self.wrong(now) or 'not the new state'}"
        elif outcome not in ("NodeExists", "NodeNotFound", self.twice_outcome):
            yield f"again: {outcome} {text}"
        elif self.wrong(now):
            yield f"again, refused: {self.wrong(now)}"
        elif view != self.after and self.operation.promise != "move":
            if "overwrite=True" not in str(text) and "resume=True" not in str(text):
                yield f"again: {outcome} without advice: {text}"
            if self.operation.force is not None:
                outcome, text, now, _ = self.tried(state, self.operation.force)
                if outcome != "ok" or nodes(now) != self.after:
                    yield f"overwrite=True: {outcome} {text} {self.wrong(now) or ''}"

    def _repair(self, state: Place) -> Iterator[str]:
        place = state.copy(self._path("repair"))
        outcome, text = call(lambda: _repair(place))
        if outcome != "ok":
            yield f"repair: {outcome} {text}"
        now, left, stale = self.must(
            lambda: (self.look(place), place.leftovers(), _stale(place))
        )
        problems = [self.wrong(now), f"leaves {left[:3]}" if left else None, stale]
        yield from (f"repair: {text}" for text in problems if text)
        place.remove()

    def _adopt(self, state: Place, view: View) -> Iterator[str]:
        """Create an array where one was, or was to be: it has no values."""
        known = {**self.after, **self.before}
        gone = [k for k, e in known.items() if k not in view and e[0] == "array"]
        if not gone:
            return
        place = state.copy(self._path("adopt"))
        for key in gone:
            outcome, text = call(lambda: _values_of_a_new_array(place, key, self.zarr_format))
            if outcome not in ("ok", "NodeExists"):
                yield f"a new array {key}: {outcome} {text}"
            elif outcome == "ok" and text:
                yield f"a new array {key} has {text} values of the old one"
        place.remove()

    # Full disks

    def full(self, sample: int | None = None, seed: int = 0) -> Found:
        """Refuse every call that needs room from each change on."""
        for point in self.points(sample, seed):
            place = self.start.copy(self._path("full"))
            outcome, text = call(lambda: self.act(place, FULL, point))
            view = self.must(lambda: self.look(place))
            self.found.points += 1
            if outcome != "ok" and not outcome.endswith(("StoreError", "TargetError")):
                self.report(point, f"full disk: {outcome} {text}")
            kept = nodes(view) == (self.after if outcome == "ok" else self.before)
            if not kept and (self.wrong(view) or self.operation.rule not in ("chunks", "nodes")):
                what = self.wrong(view) or "the new state, in spite of the error"
                self.report(point, f"full disk, {outcome} ({str(text)[:80]}): {what}")
            for problem in self._again(place, nodes(view)):
                self.report(point, f"after a full disk, {problem}")
            place.remove()
        return self.found

    # Stopped writers

    def paused(
        self, sample: int | None = None, seed: int = 0, seconds: tuple[str, ...] = ("same", "write")
    ) -> Found:
        """Stop a writer after each change; others read and write meanwhile."""
        orders = {second: self._orders(SECONDS[second] or self.operation.act) for second in seconds}
        chance = random.Random(seed)
        for point in self.points(sample, seed):
            for second in seconds if sample is None else [chance.choice(seconds)]:
                place = self.start.copy(self._path("paused"))
                for problem in self._beside(place, point, second, orders[second]):
                    self.report(point, f"beside {second}: {problem}")
                place.remove()
            self.found.points += 1
        return self.found

    def _orders(self, other: Callable[[Place], object]) -> dict[tuple[bool, bool], list[View]]:
        """Return what may be there in the end, by whether each of two writers succeeded."""
        first, then = self.start.copy(self._path("one")), self.start.copy(self._path("two"))
        call(lambda: (self.operation.act(first), first.close())[1])
        outcome = call(lambda: (other(then), then.close())[1])[0]
        only = nodes(self.must(lambda: self.look(then)))
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
        reader = Child(lambda: _read_later(place))
        other = SECONDS[second] or self.operation.act
        late = Child(lambda: hold_x(place)) if second == "write" else None
        for child in filter(None, (reader, late)):
            child.wait()
        writer = Child(lambda: self.act(place, STOP, point))
        children = [reader, writer]
        if writer.wait() == "stopped":
            reader.go_on()
            anew = Child(lambda: self.look(place))
            waits = [name for name, c in (("a reader", reader), ("a new reader", anew)) if c.wait(SOON) != "ended"]
            if late is None:
                late = Child(lambda: (other(place), place.close())[1])
            else:
                late.go_on()
            late.wait(SOON)
            writer.go_on()
            children += [anew, late]
            results = [child.result for child in (writer, late, reader, anew)]
            yield from self._judge(place, results, orders)
            if waits:
                yield f"{' and '.join(waits)} waited"
        for child in children:
            if child.wait(0) != "ended":
                os.kill(child.pid, signal.SIGKILL)
                child.wait()
            child.close()

    def _judge(
        self, place: Place, results: list[tuple[str, Any]], orders: dict[tuple[bool, bool], list[View]]
    ) -> Iterator[str]:
        for name, (outcome, text) in zip(("writer", "second writer", "reader", "new reader"), results, strict=True):
            if outcome.startswith(("bare", "hung", "exit", "killed")):
                yield f"{name}: {outcome} {text}"
        writer, late, reader, anew = results
        if reader[0] == "ok":
            for key, entry in reader[1].items():
                either = self.before.get(key), self.after.get(key)
                fine = entry in either or (entry[0] == "error" and entry[1] in GONE)
                if not fine and not (self.operation.rule == "chunks" and _blocks_agree(entry, *either)):
                    yield f"old handle: {key} {_said(entry, *either)}"
        if anew[0] == "ok" and (problem := self.wrong(anew[1])):
            yield f"new reader: {problem}"
        final = self.must(lambda: self.look(place))
        allowed = orders[writer[0] == "ok", late[0] == "ok"]
        if nodes(final) not in allowed and not self._mixed(nodes(final), [*allowed, self.before, self.after]):
            said = f"{writer[0]}, then {late[0]} ({str(late[1])[:80]})"
            yield f"in the end ({said}): {wrong(final, self.before, allowed[0], self.operation, self.kind) or 'not what both did'}"

    def _mixed(self, final: View, allowed: list[View]) -> bool:
        """Return True if each chunk is of one of two writers of chunks."""
        if self.operation.rule != "chunks" or any(final.keys() != each.keys() for each in allowed):
            return False
        return all(_blocks_agree(e, *(each[k] for each in allowed)) for k, e in final.items() if e[0] == "array")


SECONDS: dict[str, Callable[[Place], object] | None] = {"same": None, "write": write_beside}
GONE = ("NodeChanged", "NodeNotFound")


def _read_later(place: Place) -> View:
    """Open all arrays, stop, and then read them."""
    handles = {}
    for name in filter(place.exists, ROOTS):
        root = oz.open(place.root(name, read_only=place.kind == "ZIP"), mode="r")
        members = root.members(max_depth=None) if isinstance(root, oz.Group) else [("", root)]
        handles |= {f"{name}:{path}": node for path, node in members if isinstance(node, oz.Array)}
    for handle in handles.values():
        handle[(0,) * handle.ndim]
    os.kill(os.getpid(), signal.SIGSTOP)
    found: View = {}
    for key, handle in handles.items():
        try:
            found[key] = _entry(handle)
        except OmnizarrError as e:
            found[key] = "error", type(e).__name__, str(e)
    return found


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


def _stale(place: Place) -> str | None:
    """Return what is wrong if consolidated metadata differs from that of the nodes."""
    view = look(place, (), True)
    for name in ROOTS:
        copies = view.pop(f"{name}:consolidated", None)
        members = ((k.partition(":")[2], *e[:2]) for k, e in view.items() if k.startswith(name))
        own = tuple(sorted(each for each in members if each[0]))
        if copies is not None and copies != own:
            return f"consolidated metadata of {name} differs from that of the nodes"
    return None


def _values_of_a_new_array(place: Place, key: str, zarr_format: Format) -> int:
    name, _, path = key.partition(":")
    new = oz.create_array(
        place.root(name), path=path, shape=(6, 4), chunks=CHUNKS, dtype="i4",
        zarr_format=oz.open(place.root("data")).zarr_format if name == "out" else zarr_format,
    )  # fmt: skip
    found = int(np.count_nonzero(new[...]))
    place.close()
    return found


def _count_calls(store: type, mode: int, point: int, log: int) -> None:
    """Count the calls of a store's methods that change it, and end or stop at one of them."""
    inside, numbers = threading.local(), itertools.count(1)

    def wrapped(method: Any) -> Any:
        def counted(self: Any, *given: Any, **options: Any) -> Any:
            if getattr(inside, "depth", 0):
                return method(self, *given, **options)
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
