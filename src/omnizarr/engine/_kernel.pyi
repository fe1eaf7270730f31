from typing import Any

def chain(
    shape: tuple[int, ...],
    perm: tuple[int, ...],
    itemsize: int,
    swap: int,
    steps: tuple[tuple[int, int, int, int, int, int, int], ...],
    fill: bytes,
    keep_empty: bool,
    inner: Any,
    index_crc: bool,
    index_swap: bool,
    index_at_end: bool,
    /,
) -> Any: ...
def load_deflate(file: str, /) -> bool: ...
def memory(size: int, /) -> Any: ...
def run(
    chain: Any,
    plan: tuple[Any, ...] | list[Any],
    root: bytes,
    values: list[bytes | None] | None,
    prefix: bytes,
    style: int,
    separator: int,
    array: Any,
    writing: bool,
    sync: bool,
    leave_absent: bool,
    threads: int,
    small: int,
    /,
) -> list[int] | None: ...
