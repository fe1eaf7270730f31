"""A sample of hostile names, other ones in each run; `make soak` tries all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnizarr.stores.fsspec import FsspecStore
from tests.crash import names
from tests.sampling import ALL, SEED

# What went wrong once, and is tried each time.
KNOWN: list[tuple[str, str, int, str]] = [
    ("fsspec memory", "x[1]", 3, "array"),
    ("fsspec memory", "x[1]", 2, "root"),
    ("fsspec local", "a?b", 3, "group"),
    ("directory", "a.__omnizarr_b", 3, "array"),
    ("directory", "\0", 3, "root"),
    ("directory", "\ud800", 3, "root"),
    ("lmdb", "\ud800", 2, "root"),
    ("lmdb", "n" * 1100, 2, "array"),
    ("zip", "a\\b", 3, "array"),
]


@pytest.mark.parametrize("kinds", [names.LOCAL, ("redis", "fsspec async"), "s3", "gs", "az"])
def test_a_hostile_name_is_refused_or_works_and_touches_nothing_else(
    tmp_path: Path, kinds: tuple[str, ...] | str, request: pytest.FixtureRequest
) -> None:
    fixtures = {"s3": "moto_port", "az": "azurite_port"}
    ports = {k: request.getfixturevalue(name) for k, name in fixtures.items() if k == kinds}
    few = {names.LOCAL: 2.0, ("redis", "fsspec async"): 0.5}.get(kinds, 0.3)
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    cases = (KNOWN if kinds is names.LOCAL else []) + names.shuffled(SEED, kinds)
    assert names.wrong(tmp_path, cases, 1e9 if ALL else few, **ports) == [], f"seed {SEED}"


def test_a_name_that_is_taken_for_a_pattern_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def erase_prefix(self: Any, prefix: str) -> None:
        self.fs.rm(f"{self.path}/{prefix}".rstrip("/"), recursive=True)

    monkeypatch.setattr(FsspecStore, "erase_prefix", erase_prefix)
    assert names.wrong(tmp_path, KNOWN[:1], 9) != []
