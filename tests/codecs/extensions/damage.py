"""Chunks with random damage, and what reading them may do.

    python -m tests.codecs.extensions.damage --rounds 1000 --seed 1 png jpeg bytes:lzw

tries formats and compressors of imagecodecs, and prints how many chunks were errors and values.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from typing import Any

import omnizarr as oz
from tests.codecs.extensions.samples import written
from tests.property.test_damaged_chunks import read


def damaged(data: bytes, r: random.Random) -> bytes:
    """Return bytes that differ: some changed, removed or inserted, or the end cut off."""
    out = bytearray(data)
    for _ in range(r.choice((1, 1, 2, 8))):
        at = r.randrange(len(out) + 1)
        kind = r.choice(("bit", "byte", "cut", "remove", "insert", "number"))
        if kind == "bit" and at < len(out):
            out[at] ^= 1 << r.randrange(8)
        elif kind == "byte" and at < len(out):
            out[at] = r.randrange(256)
        elif kind == "cut":
            del out[at:]
        elif kind == "remove":
            del out[at : at + r.randrange(1, 9)]
        elif kind == "insert":
            out[at:at] = r.randbytes(r.randrange(1, 9))
        else:  # a number that states a size
            out[at : at + 4] = r.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)))
    return bytes(out)


def check_damage(store: dict[str, Any], rounds: int, seed: int = 0) -> Counter[str]:
    """Read an array whose chunk is damaged: an error of the chunk, or values of its shape."""
    [key] = [k for k in store if k != "zarr.json" and not k.startswith(".z")]
    sound, tally = bytes(store[key]), Counter[str]()
    for number in range(rounds):
        r = random.Random(f"{seed}/{number}")
        store[key] = damaged(sound, r)
        array = oz.open(store)
        try:
            assert array[...].shape == array.shape
            tally["values"] += 1
        except oz.ChunkError:
            tally["errors"] += 1
    store[key] = sound
    return tally


def check_damaged(store: dict[str, Any], key: str, value: bytes) -> None:
    """Check that both engines read a damaged chunk, or that their error names it."""
    shape = oz.open(store).shape
    for engine in ("auto", "reference"):
        with oz.configure(engine=engine, max_unpacked="16MiB"):
            found = read({**store, key: value})
        if isinstance(found, oz.ChunkError):
            assert found.key == key
        else:
            assert found.shape == shape


def try_images(names: list[str], rounds: int) -> dict[str, Counter[str]]:
    """Read damaged chunks of imagecodecs codecs in a child process, as they can end or block it.

    A name is one of the formats in `test_imagecodecs`, or ``bytes:`` and that of a compressor.
    """
    command = [sys.executable, "-m", __name__, "--rounds", str(rounds), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    missing = names[len(lines) :]
    assert not done.returncode, f"{missing[:1]}: {done.returncode} {done.stderr[-2000:]}"
    return {name: Counter(tally) for name, tally in zip(names, lines, strict=True)}


def main() -> None:
    from tests.codecs.extensions import test_imagecodecs as images

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(images.FORMATS))
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name in given.names:
        if name.startswith("bytes:"):
            codec = images.IMAGECODECS + name.removeprefix("bytes:")
            _, store = written(images.DEEP, compressors=codec)
        else:
            _, store = images.image_array(name, 3)
        print(json.dumps(check_damage(store, given.rounds, given.seed)), flush=True)


if __name__ == "__main__":
    main()
