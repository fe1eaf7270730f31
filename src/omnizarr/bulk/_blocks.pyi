from typing import Any

MEAN: int
MAX: int
MODE: int

def reduce(method: int, values: Any, out: Any, factors: tuple[int, ...], /) -> bool: ...
def weighted_sums(values: Any, weights: Any, out: Any, axis: int, step: int, /) -> None: ...
