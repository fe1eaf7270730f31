"""What is asked, one file a question; each has ``questions(scale, place)``."""

from benchmarks.questions import (
    append,
    boxes,
    calls,
    cores,
    element,
    full,
    hierarchy,
    imports,
    memory,
    selections,
    shards,
    slabs,
    strings,
    tiny,
)

ALL = (
    full,
    shards,
    calls,
    boxes,
    element,
    tiny,
    selections,
    slabs,
    strings,
    hierarchy,
    append,
    imports,
    memory,
    cores,
)
