from typing import Any

MEAN: int
MAX: int
MODE: int

def reduce(method: int, values: Any, out: Any, factors: tuple[int, ...], /) -> bool: ...
