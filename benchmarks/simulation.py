"""A simulation of a job on many workers: requests, tasks, time, and what it costs.

Tasks are dispatched by one coordinator, one after the other, and run in the slots of workers. Each
reads from an object store, decodes, encodes and writes. Slots of a worker share its network and its
processors. A worker that is lost takes its running tasks with it, which run again.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

EVENTS = 100_000  # tasks that are simulated one by one; of more, several are one


@dataclass(frozen=True)
class ObjectStore:
    """An object store as one worker sees it; prices are dollars for a thousand requests."""

    latency: float = 0.05  # seconds until the first byte of an answer
    bandwidth: float = 60e6  # bytes per second of one request
    at_once: int = 16  # requests of one task
    get_price: float = 0.0004
    put_price: float = 0.005


@dataclass(frozen=True)
class Cluster:
    """Workers of the same kind, and the coordinator."""

    workers: int
    slots: int = 1  # tasks at a time of one worker
    network: float = 600e6  # bytes per second of one worker
    decode: float = 800e6  # bytes per second of one worker, uncompressed
    encode: float = 400e6
    dispatch: float = 0.0  # seconds of the coordinator for each task
    lifetime: float = math.inf  # mean seconds until a worker is lost
    restart: float = 60.0  # seconds until there is another one
    spread: float = 0.0  # of the time of a task: standard deviation of its logarithm


@dataclass(frozen=True)
class Work:
    """A phase: equal tasks, and what all of them read and write together."""

    tasks: int
    reads: int = 0
    writes: int = 0
    bytes_read: float = 0.0  # as stored
    bytes_written: float = 0.0
    decoded: float = 0.0  # in memory
    encoded: float = 0.0

    @classmethod
    def of(cls, phase: Any, ratio: float = 1.0, *, recode: bool = True) -> Work:
        """Return a phase of a plan; `ratio` is that of uncompressed to stored bytes."""
        read, written = phase.bytes_read or 0, phase.bytes_written or 0
        return cls(
            phase.count or 0,
            phase.reads or 0,
            phase.writes or 0,
            read / ratio,
            written / ratio,
            read if recode else 0.0,
            written if recode else 0.0,
        )


@dataclass
class Result:
    """The result of a simulated job."""

    seconds: float = 0.0
    tasks: int = 0
    attempts: int = 0  # of tasks: more than there are if workers were lost
    lost_workers: int = 0
    reads: float = 0.0
    writes: float = 0.0
    cost: float = 0.0  # of requests, in dollars
    phases: list[float] = field(default_factory=list)  # seconds


def task_seconds(work: Work, store: ObjectStore, cluster: Cluster) -> float:
    """Return the time of one task while all slots of its worker are busy."""
    share = cluster.network / cluster.slots
    streams = store.bandwidth * store.at_once
    seconds = (work.decoded / cluster.decode + work.encoded / cluster.encode) * cluster.slots
    for requests, nbytes in (work.reads, work.bytes_read), (work.writes, work.bytes_written):
        each = requests / work.tasks
        rounds = math.ceil(each / store.at_once - 1e-9)
        rate = min(share, streams if each >= store.at_once else store.bandwidth * max(each, 1))
        seconds += rounds * store.latency * work.tasks + nbytes / rate
    return seconds / work.tasks


def simulate(phases: Sequence[Work], store: ObjectStore, cluster: Cluster, seed: int = 0) -> Result:
    """Run the phases one after the other."""
    chance, found = random.Random(seed), Result()
    for work in phases:
        began = found.seconds
        if work.tasks:
            _simulate_stage(work, store, cluster, chance, found)
        found.phases.append(found.seconds - began)
    found.cost = (found.reads * store.get_price + found.writes * store.put_price) / 1000
    return found


def _simulate_stage(
    work: Work, store: ObjectStore, cluster: Cluster, chance: random.Random, found: Result
) -> None:
    size = -(-work.tasks // EVENTS)  # tasks that are simulated as one
    count = -(-work.tasks // size)
    seconds = task_seconds(work, store, cluster) * work.tasks / count
    workers = [_Worker(cluster, chance, found.seconds) for _ in range(cluster.workers)]
    slots = [(found.seconds, n, slot) for n in range(len(workers)) for slot in range(cluster.slots)]
    coordinator = end = found.seconds
    attempts, left = 0, count
    while left:
        free, number, slot = heapq.heappop(slots)
        # The first of the tasks that are simulated as one begins before the last is dispatched.
        start = max(free, coordinator + cluster.dispatch)
        up = workers[number].up(start)
        if up > start:  # another slot takes the task
            heapq.heappush(slots, (up, number, slot))
            continue
        coordinator += cluster.dispatch * size
        took = seconds * (chance.lognormvariate(0, cluster.spread) if cluster.spread else 1.0)
        lost = workers[number].lost_after(start)
        attempts += 1
        if start + took > lost:
            heapq.heappush(slots, (lost, number, slot))
            continue
        left -= 1
        end = max(end, start + took)
        heapq.heappush(slots, (start + took, number, slot))
    found.lost_workers += sum(worker.losses(end) for worker in workers)
    found.seconds = end
    found.tasks += work.tasks
    found.attempts += round(work.tasks * attempts / count)
    found.reads += work.reads * attempts / count
    found.writes += work.writes * attempts / count


class _Worker:
    """The moments at which a worker is lost; another one is there after a while."""

    def __init__(self, cluster: Cluster, chance: random.Random, began: float) -> None:
        self.cluster, self.chance = cluster, chance
        self._lost = [began + self._lifetime()]

    def _lifetime(self) -> float:
        mean = self.cluster.lifetime
        return math.inf if mean == math.inf else self.chance.expovariate(1 / mean)

    def lost_after(self, moment: float) -> float:
        """Return the first loss after a moment."""
        while self._lost[-1] <= moment:
            self._lost.append(self._lost[-1] + self.cluster.restart + self._lifetime())
        return self._lost[bisect_right(self._lost, moment)]

    def up(self, moment: float) -> float:
        """Return the first moment from the given one at which the worker is there."""
        self.lost_after(moment)
        before = bisect_right(self._lost, moment)
        return max(moment, self._lost[before - 1] + self.cluster.restart) if before else moment

    def losses(self, end: float) -> int:
        """Return the number of losses before the end."""
        return bisect_left(self._lost, end)
