"""Variable-length strings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.harness import Case
from benchmarks.layouts import Layout, Workspace
from benchmarks.trials import Scale, reading, stored, writing


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Read and write short strings, some not ASCII, in ten chunks, as NumPy's StringDType."""
    count = scale.strings
    words = [f"sample {i * 7919 % count}" + ("é" if i % 10 == 0 else "") for i in range(count)]
    data = np.array(words, np.dtypes.StringDType())
    chosen = [(3, "raw"), (3, "zstd")] if scale.quick else [(3, "raw"), (3, "zstd"), (2, "zstd")]
    for zarr_format, codec in chosen:
        layout = Layout((count,), "string", (count // 10,), codec, zarr_format=zarr_format)
        topic = f"{count:,} strings" + (", version 2" if zarr_format == 2 else "")
        main = codec == "zstd" and zarr_format == 3
        with stored(workspace, layout, data) as path:
            yield Case(
                topic,
                f"{codec}, read",
                partial(reading, path=path, layout=layout, expected=data),
                main=main,
            )
        yield Case(
            topic,
            f"{codec}, write",
            partial(writing, workspace=workspace, layout=layout, data=data),
            main=main,
        )
