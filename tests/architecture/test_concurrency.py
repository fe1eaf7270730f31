"""Threads, locks of the operating system, fork hooks and caches are made in `concurrency/` only.

Everywhere else a lock is made by `concurrency.fork.lock`, so that a forked child finds it free.
What may be elsewhere: thread-local state and events, which lock nothing; and a `Condition` that
belongs to one running call, in `_CONDITIONS`. `testing/` starts threads on
purpose.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.sources import MODULES, SOURCE, parsed

SYSTEM = {"fcntl", "msvcrt", "_thread", "multiprocessing"}
NAMES = {
    "threading": {"Thread", "Timer", "Lock", "RLock", "Semaphore", "BoundedSemaphore", "Barrier"},
    "concurrent.futures": {"ThreadPoolExecutor", "ProcessPoolExecutor"},
    "os": {"register_at_fork", "fork"},
    "time": {"sleep"},
    "functools": {"lru_cache"},
    "random": {"random", "uniform"},
}
_CONDITIONS = {"aio.py"}
# Waiting for a time that is known is no retry: for a lease to run out.
_SLEEPS = {"bulk/repair.py"}


def _sources() -> Iterator[tuple[str, ast.Module]]:
    for path in MODULES:
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(("concurrency/", "testing/")):
            yield name, parsed(path)


def _uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and full name of everything that is imported or used by its module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield node.lineno, _dotted(node)


def _dotted(node: ast.expr) -> str:
    """Return the name of an attribute of a module; what is no name is left out."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_only_concurrency_makes_threads_locks_and_fork_hooks() -> None:
    forbidden = SYSTEM | {f"{m}.{n}" for m, names in NAMES.items() for n in names}
    found = [
        f"{name}:{line} {used}"
        for name, tree in _sources()
        for line, used in _uses(tree)
        if used in forbidden or used.partition(".")[0] in SYSTEM
        if not (name in _SLEEPS and used == "time.sleep")
    ]
    assert found == []


def test_conditions_belong_to_one_running_call() -> None:
    found = {
        name
        for name, tree in _sources()
        for _, used in _uses(tree)
        if used == "threading.Condition"
    }
    assert found <= _CONDITIONS


@pytest.mark.parametrize("hook", ["register_at_fork"])
def test_one_module_registers_fork_hooks(hook: str) -> None:
    files = [p.name for p in MODULES if hook in p.read_text()]
    assert files == ["fork.py"]


def test_every_bounded_table_is_a_cache() -> None:
    """A table that empties itself when it is full is a `Cache`."""
    found = []
    for name, tree in _sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and isinstance(node.test, ast.Compare):
                if not ast.unparse(node.test.left).startswith("len(_"):
                    continue
                if ".clear()" in ast.unparse(ast.Module(node.body, [])):
                    found.append(f"{name}:{node.lineno}")
    assert found == []
