"""Why bars are missed, as profiles showed, and what is not asked yet."""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchmarks.harness import Bar, Row


@dataclass(frozen=True)
class Reason:
    """What a profile of some rows showed."""

    topic: str  # a regular expression
    label: str  # a regular expression
    text: str
    who: str = "omnizarr"

    def covers(self, row: Row, bar: Bar) -> bool:
        here = re.search(self.topic, row.topic) and re.search(self.label, row.label)
        return bool(here) and bar.who == self.who


REASONS: tuple[Reason, ...] = ()

NOT_ASKED = (
    "Version 2 in float32, and in version 2 all codecs but blosc lz4 at other chunks than 64³.",
    "Text in version 2.",
    "Number of store calls per shard (a test counts them).",
    "Remote stores, zip files.",
)
