from typing import Any

def pipeline(
    shape: tuple[int, ...],
    permutation: tuple[int, ...],
    itemsize: int,
    swap: int,
    steps: tuple[tuple[int, int, int, int, int, int, int], ...],
    fill: bytes,
    keep_empty: bool,
    inner: Any,
    index_checksum: bool,
    index_swap: bool,
    index_at_end: bool,
    /,
) -> Any: ...
def load_deflate(file: str, /) -> bool: ...
def memory(size: int, /) -> Any: ...
def run(
    pipeline: Any,
    plan: tuple[Any, ...] | list[Any],
    root: bytes,
    values: list[bytes | None] | None,
    prefix: bytes,
    key_style: int,
    separator: int,
    array: Any,
    writing: bool,
    sync: bool,
    skip_missing: bool,
    threads: int,
    min_bytes: int,
    /,
) -> list[int] | None: ...
