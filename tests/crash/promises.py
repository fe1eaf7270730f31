"""What holds for each operation and event; ``python -m tests.crash.promises`` documents it.

A sentence is about directories; where other stores promise something else, `ELSEWHERE` has it.
"""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/explanation/safety.md"
MARKERS = "<!-- promises: written by tests/crash/promises.py -->", "<!-- end of promises -->"

EVENTS = {
    "alone": "alone",
    "killed": "killed, then",
    "paused": "stopped meanwhile, others find",
    "old-handle": "a reader with an older handle gets",
    "new-reader": "a reader that opens it gets",
    "second-writer": "a second writer",
    "full-disk": "the disk is full",
}

_OLD_OR_NEW = "the old or the new node, or an error"
_REFUSED = "waits or gets an error"
_UNSAFE = "must not write to the node: its change may be lost"
_KEPT = "an error; the old state is kept"
_ABSENT = "no node, or all of it"
_INCOMPLETE = "no node, or one that says that it is incomplete, or all of it"

# operation: one sentence for each event
PROMISES: dict[str, tuple[str, ...]] = {
    "create": (
        *("the node is there", "no node, or all of it; again: done, or `NodeExists`"),
        *(_ABSENT, "what it had open, unchanged", _ABSENT, _REFUSED, _KEPT),
    ),
    "create with data": (
        "the node is there with all values",
        "no node, or all of it; again: done, or `NodeExists`, which names `overwrite=True`",
        *(_ABSENT, "what it had open, unchanged", _ABSENT, _REFUSED, _KEPT),
    ),
    "overwrite": (
        *("the new node is there", "the old or the new node", "the old or the new node"),
        *(_OLD_OR_NEW, "the old or the new node"),
        *("waits, gets an error, or changes the old or the new node", _KEPT),
    ),
    "overwrite root": (
        "the new hierarchy is there",
        "the old or the new hierarchy, or none until `repair`",
        "the old or the new hierarchy, or none",
        *(_OLD_OR_NEW, "the old or the new hierarchy, or none", _REFUSED, _KEPT),
    ),
    "delete": (
        "the node is gone",
        "all of the node, or nothing that a new node would take for its own; `repair` removes it",
        *("all of the node, or none", "the old values, or an error"),
        *("all of the node, or none", "gets an error, or its change goes with the node"),
        "an error; the node is there, or gone",
    ),
    "move": (
        *("the node is at the new path", "all of the node at one path, or at both"),
        *("all of the node at one path, or at both", "the values, or an error"),
        *("all of the node at one path, or at both", "gets an error, or moves with it", _KEPT),
    ),
    "resize": (
        *("the shape is the new one", "the old or the new shape with its values"),
        *("the old or the new shape with its values",) * 3,
        *("waits; both changes are kept", "an error; the old or the new shape with its values"),
    ),
    "append": (
        *("the rows are there", "the old shape, or the new one with all rows"),
        *("the old shape, or the new one with all rows",) * 3,
        *("waits; both changes are kept", _KEPT),
    ),
    "write": (
        *("the values are there", "each chunk is old or new"),
        *("each chunk is old or new",) * 3,
        *("both changes are kept", "an error; each chunk is old or new"),
    ),
    "attributes": (
        *("the document is the new one", "the old or the new document"),
        *("the old or the new document",) * 3,
        *("waits; both changes are kept", _KEPT),
    ),
    "consolidate": (
        *("the copies are those of the nodes", "the old or the new document"),
        *("the old or the new document",) * 3,
        *("waits", _KEPT),
    ),
    "job": (
        "the destination is complete",
        "no destination, or one that says that it is incomplete, or all of it; `resume=True` or"
        " `overwrite=True` completes it",
        *(_INCOMPLETE, "what it had open, unchanged", _INCOMPLETE, _REFUSED, _KEPT),
    ),
    "in-place job": (
        "the node is the new one",
        "the old or the new node, or an error that names the job; `resume=True` completes it",
        "the old or the new node, or an error that names the job",
        *(_OLD_OR_NEW, "the old or the new node, or an error that names the job"),
        *("may write to the array; then the job raises, and does not replace it", _KEPT),
    ),
    "convert in place": (
        *("metadata of both formats is there", "each node is readable, in the old or new format"),
        *("each node",) * 3,
        *("waits or gets an error", _KEPT),
    ),
}

_MEMBERS = "members of a new group may be found before it"
_STEPS = (
    "the old or the new node, or none until `repair`, and jobs refuse to read the hierarchy"
    " meanwhile; members of a group are there or not, each with all its values"
)
_MOVED = (
    "each member of a group at one path, or at both; moving it again finishes, or `repair` where"
    " that is refused"
)
_NONE = "none until `repair` or `resume=True`, and jobs refuse to read the hierarchy meanwhile"
_MIXED = "values that may be partly old and partly new"
# (operation or "all", event): what other stores promise instead
ELSEWHERE: dict[tuple[str, str], dict[str, str]] = {
    ("all", "killed"): {
        "memory": "everything is gone with the process",
        "ZIP": "all changes before that, in their order; readers recover them with a warning",
    },
    ("overwrite", "killed"): {
        "SQLite and LMDB": "the old or the new node, or none until `repair`",
        "ZIP": _STEPS,
        "buckets and Redis": _STEPS,
        "fsspec and others": _STEPS,
    },
    ("move", "killed"): {
        "ZIP": _MOVED,
        "buckets and Redis": _MOVED,
        "fsspec and others": _MOVED,
    },
    ("job", "killed"): {
        "ZIP": f"the same, but {_MEMBERS}",
        "buckets and Redis": f"the same, but in buckets {_MEMBERS}",
        "fsspec and others": f"the same, but {_MEMBERS}",
    },
    ("in-place job", "killed"): {
        "SQLite and LMDB": f"the old or the new node, or {_NONE}",
        "ZIP": f"the old or the new node, or {_NONE}",
        "buckets and Redis": f"the old or the new node, or {_NONE}",
        "fsspec and others": f"the old or the new node, or {_NONE}",
    },
    ("delete", "killed"): {
        "ZIP": "each member of a group is there or gone; deleting it again, or `repair`, finishes",
        "buckets and Redis": "the same",
        "fsspec and others": "the same",
    },
    ("all", "old-handle"): {"buckets and Redis": _MIXED, "fsspec and others": _MIXED},
    ("all", "new-reader"): {
        "buckets and Redis": f"{_MIXED} while a node is replaced",
        "fsspec and others": f"{_MIXED} while a node is replaced",
    },
    ("move", "second-writer"): {"buckets and Redis": _UNSAFE},
    ("overwrite", "second-writer"): {"buckets and Redis": _UNSAFE},
    ("in-place job", "second-writer"): {"buckets and Redis": _UNSAFE},
    ("all", "second-writer"): {
        "ZIP": "must be in the same process",
        "fsspec and others": "is not kept apart: one of two changes may be lost",
    },
}


def markdown() -> str:
    """Return the table, and the list of what other stores promise."""
    lines = [f"| operation | {' | '.join(EVENTS.values())} |", "| --- " * (len(EVENTS) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in PROMISES.items()]
    lines += ["", "This is what directories promise. Other stores differ:", ""]
    for (name, event), stores in ELSEWHERE.items():
        what = "Any operation" if name == "all" else name.capitalize()
        told = "; ".join(f"{store}: {sentence}" for store, sentence in stores.items())
        lines.append(f"- {what}, {EVENTS[event]}: {told}.")
    return "\n".join([MARKERS[0], "", *lines, "", MARKERS[1]])


def documented() -> str | None:
    """Return the part of the page that is written here, or None if it has none."""
    _, found, rest = PAGE.read_text().partition(MARKERS[0])
    return found + rest.partition(MARKERS[1])[0] + MARKERS[1] if found else None


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().replace(documented() or "", markdown()))
