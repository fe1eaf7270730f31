"""How fast is text of variable length?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.harness import Question
from benchmarks.layouts import Layout, Place
from benchmarks.trials import Scale, reading, stored, writing


def questions(scale: Scale, place: Place) -> Iterator[Question]:
    """Short words, some beyond ASCII, in ten chunks; NumPy's StringDType in memory."""
    count = scale.strings
    words = [f"sample {i * 7919 % count}" + ("é" if i % 10 == 0 else "") for i in range(count)]
    data = np.array(words, np.dtypes.StringDType())
    chosen = [(3, "raw"), (3, "zstd")] if scale.quick else [(3, "raw"), (3, "zstd"), (2, "zstd")]
    for zarr_format, codec in chosen:
        layout = Layout((count,), "string", (count // 10,), codec, zarr_format=zarr_format)
        topic = f"{count:,} strings" + (", version 2" if zarr_format == 2 else "")
        main = codec == "zstd" and zarr_format == 3
        with stored(place, layout, data) as path:
            yield Question(
                topic,
                f"{codec}, read",
                partial(reading, path=path, layout=layout, expected=data),
                main=main,
            )
        yield Question(
            topic,
            f"{codec}, write",
            partial(writing, place=place, layout=layout, data=data),
            main=main,
        )
