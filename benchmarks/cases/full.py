"""Reading and writing whole arrays."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.harness import OURS, Case, Target
from benchmarks.layouts import CODECS, Layout, Workspace, smooth
from benchmarks.trials import Scale, reading, stored, writing

EDGES = (128, 64, 32, 16)
KIB, MIB = 2**10, 2**20


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Read, then write every layout."""
    data = {}
    for layout in layouts(scale):
        if layout.dtype not in data:
            data = {layout.dtype: smooth(layout.shape, layout.dtype)}
        values = data[layout.dtype]
        edge = layout.chunks[0]
        label = f"{layout.codec}, {edge}³"
        kind = f"version {layout.zarr_format}, {layout.dtype}"
        main = layout.zarr_format == 3 and layout.dtype == "uint16" and edge in (128, 32)
        with stored(workspace, layout, values) as path:
            yield Case(
                f"Full read, {kind}",
                label,
                partial(reading, path=path, layout=layout, expected=values),
                read_targets(layout),
                main=main,
            )
        yield Case(
            f"Full write, {kind}",
            label,
            partial(writing, workspace=workspace, layout=layout, data=values),
            write_targets(layout),
            main=main,
        )


def layouts(scale: Scale) -> Iterator[Layout]:
    """Yield all codecs and chunk sizes in version 3 (quick: some), and fewer in version 2.

    float32 arrays are half as long, so that all arrays have the same size in bytes.
    """
    shape = scale.shape
    half = (shape[0] // 2, *shape[1:])
    chosen: list[tuple[int, str, tuple[int, ...], tuple[int, ...], tuple[str, ...]]]
    chosen = [(3, "uint16", shape, EDGES, CODECS)]
    if scale.quick:
        few, many = ("blosc zstd", "gzip"), ("raw", "blosc lz4", "zstd")
        chosen = [(3, "uint16", shape, EDGES, many), (3, "uint16", shape, (64, 32), few)]
        chosen += [(2, "uint16", shape, (64,), many), (3, "float32", half, (64,), many)]
    else:
        chosen += [(2, "uint16", shape, EDGES[:3], CODECS)]
        chosen += [(2, "uint16", shape, EDGES[3:], ("raw", "blosc lz4"))]
        chosen += [(3, "float32", half, EDGES, CODECS), (2, "float32", half, (64,), CODECS)]
    for zarr_format, dtype, extent, edges, codecs in chosen:
        for codec in codecs:
            for edge in edges:
                yield Layout(extent, dtype, (edge,) * 3, codec, zarr_format=zarr_format)


def read_targets(layout: Layout) -> tuple[Target, ...]:
    """Return targets for chunks, or inner chunks, of 8 KiB to 4 MiB."""
    size = layout.chunk_bytes
    if not 8 * KIB <= size <= 4 * MIB:
        return ()
    ratio = {"zstd": 1.05, "gzip": 1.2, "raw": 1.2 if size >= MIB else 1.5}.get(layout.codec, 1.5)
    return (Target(ratio), *_reference(layout))


def write_targets(layout: Layout) -> tuple[Target, ...]:
    """Return targets for every chunk size."""
    ratio = {"zstd": 1.1, "gzip": 1.0}.get(layout.codec, 1.2)
    return (Target(ratio), *_reference(layout))


def _reference(layout: Layout) -> tuple[Target, ...]:
    return (Target(1.0, who=OURS[1]),) if layout.chunk_bytes >= 64 * KIB else ()
