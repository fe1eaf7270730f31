"""The benchmarks: each file has a function ``cases(scale, workspace)``."""

from benchmarks.cases import (
    append,
    boxes,
    calls,
    cores,
    element,
    full,
    gathers,
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
    gathers,
    slabs,
    strings,
    hierarchy,
    append,
    imports,
    memory,
    cores,
)
