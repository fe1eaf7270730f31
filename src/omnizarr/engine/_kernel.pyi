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
    fill_parts: int = ...,
    sequence: Any = ...,
    /,
) -> Any: ...
def load_deflate(file: str, /) -> bool: ...
def memory(size: int, /) -> Any: ...
def identity(path: bytes, /) -> int: ...
def read_small(
    array: tuple[Any, ...],
    selection: Any,
    metadata: bytes,
    identity: int,
    counts: list[int] = ...,
    /,
) -> Any: ...
def run(
    pipeline: Any,
    plan: tuple[Any, ...] | list[Any],
    root: bytes,
    values: list[Any] | None,
    prefix: bytes,
    key_style: int,
    separator: int,
    array: Any,
    writing: bool,
    sync: bool,
    skip_missing: bool,
    threads: int,
    min_bytes: int,
    metadata: bytes = ...,
    identity: int = ...,
    /,
) -> list[int] | None: ...
def run_rows(
    pipeline: Any,
    rows: list[tuple[Any, ...]],
    keys: list[str] | None,
    root: bytes,
    values: list[Any] | None,
    array: Any,
    is_scalar: bool,
    writing: bool,
    sync: bool,
    skip_missing: bool,
    tell_missing: bool,
    threads: int,
    min_bytes: int,
    /,
) -> Any: ...
