"""Fill values of narrow floats, rounded once.

A parser makes every number of a document a 64-bit float. Rounding that to fewer bits goes wrong
where it lies exactly between two narrow floats and the number in the document does not. Such a
fill value is moved by one unit in the last place towards what the document says.
"""

from __future__ import annotations

import json
import math
from typing import Any

from omnizarr.model import ArrayModel, FillValue, Node

NARROW = (
    *("float16", "float32", "bfloat16", "float8_", "float6_", "float4_"),
    *("complex64", "complex_float32"),
)
MAX_BITS = 25  # of a number between two 32-bit floats, the widest of the narrow ones
MAX_DIGITS = 4000  # Python's limit for integers is a little more


def rounded_once(node: Node, document: bytes) -> Node:
    """The node, with a fill value that further rounding takes to where the document's goes."""
    if not isinstance(node, ArrayModel) or not node.data_type.name.startswith(NARROW):
        return node
    given = node.fill_value.json
    if not any(_between(n) for n in (given if isinstance(given, list) else [given])):
        return node
    exact = json.loads(document, parse_float=towards).get("fill_value")
    return node.with_(fill_value=FillValue(exact, node.fill_value.dialect))


def towards(text: str) -> float:
    """The nearest float, or its neighbour on the side of the exact number; see above."""
    value = float(text)
    if not _between(value):
        return value
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    if len(whole) + len(fraction) > MAX_DIGITS:
        return value
    power = int(exponent or 0) - len(fraction)
    over, under = value.as_integer_ratio()
    exact = int(whole + fraction) * 10 ** max(power, 0) * under
    near = over * 10 ** max(-power, 0)
    return (
        value if exact == near else math.nextafter(value, math.inf if exact > near else -math.inf)
    )


def _between(value: Any) -> bool:
    """Whether a float has so few bits that it can lie between two narrow ones."""
    if not isinstance(value, float) or not math.isfinite(value) or value == 0:
        return False
    return bool((math.frexp(value)[0] * 2**MAX_BITS).is_integer())
