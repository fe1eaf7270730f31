"""Marks of nodes that are incomplete, and the writers that are at work."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

from omnizarr.model.paths import OURS

JOURNAL = f"{OURS}journal__"  # in the root of a store: one prefix for each attempt of a job
INTERMEDIATE = f"{OURS}rechunk__"  # in the root of a store: chunks between two passes of a job
MARKER = f"{OURS}incomplete__"  # the name of a key beside chunks whose metadata is stored last
_NAME = re.compile(r"(\d+)_([0-9a-f]{8})_(\d+)_[0-9a-f]{8}")


def is_running(process: int) -> bool:
    """Return True if a process of this machine has this number, or may have it."""
    if sys.platform == "win32":
        return True  # os.kill would end it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


class WriterProcess(NamedTuple):
    """A process that writes, as its name tells."""

    process: int = 0  # 0 if it is not known
    here: bool = False  # the process is one of this machine
    began: int = 0  # seconds since 1970

    @classmethod
    def named(cls, name: str) -> WriterProcess | None:
        """Return the writer with a name; None if it is no name of a writer."""
        parts = _NAME.fullmatch(name)
        return None if parts is None else cls(int(parts[1]), parts[2] == _machine(), int(parts[3]))

    @property
    def is_alive(self) -> bool:
        """True unless the process is known to have ended."""
        return not self.here or is_running(self.process)


def new_name() -> str:
    """Return a unique name for a writer or a stage, made of process, machine and time."""
    return f"{os.getpid()}_{_machine()}_{int(time.time())}_{os.urandom(4).hex()}"


def _machine() -> str:
    """Return a digest of the name of this machine."""
    name = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    return blake2b(name.encode(), digest_size=4).hexdigest()


_writing: set[str] = set()  # the writers of this process that are at work


def begin_writing() -> str:
    """Return a name for a writer, which is at work until `end_writing`, or its process ends."""
    name = new_name()
    _writing.add(name)
    return name


def end_writing(name: str) -> None:
    """Take note that a writer has finished, or failed."""
    _writing.discard(name)


def marker(path: str) -> str:
    """Return the key whose presence means that the node at a path is incomplete."""
    return f"{path}/{MARKER}" if path else MARKER


class Kind(StrEnum):
    """The effect that an operation has on the node that it marks, until it is finished."""

    DELETE = "delete"  # there is none: what is left of the old one is to be erased
    CREATE = "create"  # there is none: the chunks and metadata of a new one are being written
    COPY = "copy"  # there is none: all that is below the path belongs to the operation
    UPDATE = "update"  # it holds old and new values
    EXTEND = "extend"  # it stays as it was: what changes it is not visible before the end


@dataclass(frozen=True, slots=True)
class Mark:
    """The value of a marker: the operation that writes the node, and a digest of its plan."""

    operation: str  # for messages only
    plan: str = ""
    attempt: str = ""  # differs each time that the operation starts again
    finished: bool = False  # the node is visible, and only the marker is left to be erased
    kind: Kind = Kind.CREATE
    writer: str = ""  # of `begin_writing`, if it is known who writes

    def write(self, **more: str | None) -> bytes:
        """Return the stored form, with other members."""
        return json.dumps({**dataclasses.asdict(self), **more}).encode()

    @classmethod
    def read(cls, value: bytes | None) -> Mark:
        """Return a stored marker; one of another program is just "a writer"."""
        try:
            stored = json.loads(value or b"")
            operation, plan = str(stored["operation"]), str(stored["plan"])
            finished, kind = stored.get("finished") is True, Kind(stored.get("kind", Kind.CREATE))
            attempt, writer = (str(stored.get(name, "")) for name in ("attempt", "writer"))
            return cls(operation, plan, attempt, finished, kind, writer)
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls("a writer")

    @property
    def cannot_resume(self) -> bool:
        """True if the operation was interrupted, and was no job that can be continued."""
        ours = self.kind in (Kind.CREATE, Kind.DELETE)
        return ours and not self.attempt and not self.finished

    @property
    def process(self) -> int:
        """The number of the process that writes; 0 if it is not known."""
        return (WriterProcess.named(self.writer) or WriterProcess()).process

    @property
    def is_being_written(self) -> bool:
        """True if the writer is known to be at work, on this machine."""
        found = WriterProcess.named(self.writer)
        if found is None or not found.here:
            return False
        if found.process == os.getpid():
            return self.writer in _writing
        return is_running(found.process)

    @property
    def journal(self) -> str:
        """The prefix of the journal of this attempt."""
        return f"{JOURNAL}/{self.attempt}/"

    def message(self, where: object) -> str:
        """Return the message for a node whose writer is at work, or was interrupted."""
        if self.is_being_written:
            by = f"is being written by process {self.process}"
            return f"{where} {by}; try again when it is complete"
        finish = "resume=True to finish it, or " if self.attempt else ""  # jobs have an attempt
        return (
            f"{where} is incomplete: {self} was interrupted, or is still writing; give {finish}"
            "overwrite=True to start again"
        )

    @property
    def keeps_node(self) -> bool:
        """True if the node is as it was before the operation, while that is not finished.

        Unless the operation is just replacing a part of it (`replaced`).
        """
        return self.kind is Kind.EXTEND

    @property
    def effect(self) -> str:
        """The state of the node while the operation is not finished, for messages."""
        if self.kind is Kind.UPDATE:
            return "holds old and new values"
        return "is as it was" if self.keeps_node else "is incomplete"

    def __str__(self) -> str:
        return self.operation
