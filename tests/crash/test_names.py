"""A sample of hostile names, other ones in each run; `make soak` tries all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnizarr.stores.fsspec import FsspecStore
from tests.crash import names
from tests.sampling import SEED

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


def wrong(
    folder: Path, cases: list[tuple[str, str, int, str]], seconds: float, **ports: Any
) -> list[Any]:
    tried = [*names.run(folder, cases, seconds, **ports)]
    assert tried
    return [(case, said) for case, said in tried if said not in ("works", "refused", "no name")]


@pytest.mark.parametrize(
    ("kinds", "seconds"), [(names.LOCAL, 4.0), (("redis", "fsspec async"), 1.0)]
)
def test_a_hostile_name_is_refused_or_works_and_touches_nothing_else(
    tmp_path: Path, kinds: tuple[str, ...], seconds: float
) -> None:
    cases = (KNOWN if kinds is names.LOCAL else []) + names.shuffled(SEED, kinds)
    assert wrong(tmp_path, cases, seconds) == [], f"seed {SEED}"


@pytest.mark.parametrize("kind", ["s3", "gs", "az"])
def test_the_same_holds_in_buckets(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    fixtures = {"s3": "moto_port", "az": "azurite_port"}
    ports = {k: request.getfixturevalue(name) for k, name in fixtures.items() if k == kind}
    assert wrong(tmp_path, names.shuffled(SEED, (kind,)), 0.5, **ports) == [], f"seed {SEED}"


def test_a_name_that_is_taken_for_a_pattern_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def erase_prefix(self: Any, prefix: str) -> None:
        self.fs.rm(f"{self.path}/{prefix}".rstrip("/"), recursive=True)

    monkeypatch.setattr(FsspecStore, "erase_prefix", erase_prefix)
    found = [said for _, said in names.run(tmp_path, KNOWN[:1])]
    assert found != ["works"]
