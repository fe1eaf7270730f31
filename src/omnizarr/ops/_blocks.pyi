from typing import Any

MEAN: int
MAX: int
MODE: int

def fold(method: int, values: Any, out: Any, factors: tuple[int, ...], /) -> bool: ...
