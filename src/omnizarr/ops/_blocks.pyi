from typing import Any

MEAN: int
MAX: int
MODE: int

def fold(method: int, values: Any, out: Any, factors: tuple[int, ...], /) -> bool: ...
def weigh(values: Any, weights: Any, out: Any, axis: int, step: int, /) -> None: ...
