"""The threads of one write do not get in each other's way; counted in system calls."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from tests.engine.test_reference import needs_kernel

pytestmark = [
    needs_kernel,
    pytest.mark.skipif(
        not shutil.which("strace"), reason="strace is not installed (apt-get install strace)"
    ),
]
GRID, THREADS = (64, 32), 4
CODE = f"""
import os, sys
import numpy as np
import omnizarr as oz
values = np.arange(1, {64 * 32 * 256} + 1, dtype="i4").reshape({16 * 64}, {16 * 32})
options = dict(chunks=(16, 16), dtype="i4", codecs=["bytes"])
array = oz.create_array(sys.argv[1], shape=values.shape, **options)
os.mkdir(sys.argv[1] + "/begin")
with oz.configure(threads={THREADS}):
    array[...] = values
os.mkdir(sys.argv[1] + "/end")
"""


def test_a_thread_writes_neighbours_one_after_the_other_and_each_with_few_calls(
    tmp_path: Path,
) -> None:
    log = tmp_path / "calls"
    # With ?, calls that a processor does not have are left out; aarch64 has no mkdir and dup2.
    calls = "trace=?mkdir,mkdirat,openat,dup,?dup2,dup3,pwrite64,linkat,renameat,close"
    program = [sys.executable, "-c", textwrap.dedent(CODE), str(tmp_path / "x")]
    subprocess.run(["strace", "-f", "-qq", "-e", calls, "-o", log, *program], check=True)
    traced = log.read_text().split("/begin")[1].split("/end")[0].splitlines()
    by_thread: dict[str, list[int]] = defaultdict(list)
    for line in traced:
        # A file is renamed where another thread has just made its directory.
        named = re.search(r'\A(\d+) +(?:linkat|renameat)\(.*"c/(\d+)/(\d+)"', line)
        if named:
            thread, row, column = named.groups()
            by_thread[thread].append(int(row) * GRID[1] + int(column))
    written = sorted(n for numbers in by_thread.values() for n in numbers)
    assert written == [*range(GRID[0] * GRID[1])]
    # The largest number of shares that threads can take, whichever is the quickest.
    shares, left = 0, len(written)
    while left:
        left -= max(1, left // (4 * THREADS))
        shares += 1
    begun = sum(1 + sum(b != a + 1 for a, b in pairwise(n)) for n in by_thread.values())
    assert begun <= shares < len(written) / 10
    if _is_local(tmp_path):
        assert not [line for line in traced if " dup" in line]


def _is_local(folder: Path) -> bool:
    """Return True on file systems that report failed writes before a file is closed."""
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", folder], check=True, capture_output=True, text=True
    ).stdout.strip()
    return kind in ("ext2/ext3", "xfs", "btrfs", "tmpfs")
