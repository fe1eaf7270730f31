"""What a chunk needs of stored values, asked for step by step.

A generator says which parts it wants and is sent them; it may then ask for more, as a shard does
for its index first and its inner chunks after. What it returns decodes. Whoever runs it does the
fetching, so that one request can serve the steps of many chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy.typing as npt

from omnizarr.codecs.codec import Buffer
from omnizarr.errors import ChunkError, OmnizarrError
from omnizarr.stores import Range

T = TypeVar("T")
Request: TypeAlias = tuple[str, Range | None]  # a key and a part of its value, None: all of it
Answers: TypeAlias = Sequence[Buffer | None]  # None: there is no such key
Steps: TypeAlias = Generator[list[Request], Answers, T]
Decode: TypeAlias = Callable[[npt.NDArray[Any]], None]  # fills an array


def run(steps: Steps[T], fetch: Callable[[list[Request]], Answers]) -> T:
    """Run the steps to their end, fetching what they ask for; they are told what fails."""
    try:
        wanted = next(steps)
        while True:
            try:
                answers = fetch(wanted)
            except OmnizarrError as e:
                wanted = steps.throw(e)
            else:
                wanted = steps.send(answers)
    except StopIteration as end:
        result: T = end.value
        return result


def from_memory(data: Buffer) -> Callable[[list[Request]], Answers]:
    """Answers requests from one value that is here already, whatever the key."""
    view = memoryview(data)
    return lambda requests: [view if part is None else part.of(view) for _, part in requests]


def together(several: Iterable[Steps[T]]) -> Steps[list[T]]:
    """Run several side by side, so that each round is one list of requests."""
    found: dict[int, T] = {}
    waiting: list[tuple[int, Steps[T], list[Request]]] = []
    for number, steps in enumerate(several):
        try:
            waiting.append((number, steps, next(steps)))
        except StopIteration as end:
            found[number] = end.value
    while waiting:
        answers = yield [request for _, _, wanted in waiting for request in wanted]
        still, start = [], 0
        for number, steps, wanted in waiting:
            own = answers[start : start + len(wanted)]
            start += len(wanted)
            try:
                still.append((number, steps, steps.send(own)))
            except StopIteration as end:
                found[number] = end.value
        waiting = still
    return [found[number] for number in sorted(found)]


def within(steps: Steps[T], span: Range) -> Steps[T]:
    """Run steps on the part `span` of a value, which must be there in full."""
    try:
        wanted = next(steps)
        while True:
            parts = [(part or Range()).within(span) for _, part in wanted]
            answers = yield [(key, part) for (key, _), part in zip(wanted, parts, strict=True)]
            for part, answer in zip(parts, answers, strict=True):
                if answer is None or len(answer) != part.length:
                    raise ChunkError(f"the value ends before its inner chunk does: {span}")
            wanted = steps.send(answers)
    except StopIteration as end:
        result: T = end.value
        return result
