"""Trying again where another writer was quicker."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

ATTEMPTS = 200
LONGEST = 0.5  # seconds of one wait


def attempts() -> Iterator[int]:
    """Numbers of attempts; before each but the first a wait that grows and is never the same."""
    for number in range(ATTEMPTS):
        if number:
            time.sleep(random.random() * min(LONGEST, 0.001 * 2 ** min(number, 10)))
        yield number
