"""Types that filters of numcodecs state for what they take and what they give.

numcodecs sees its input as items of the stated type without looking at their own. In version 2
that is the meaning of a document: a filter whose type has another byte order or size than the
items gets their bytes. In version 3 the items between codecs are numbers, and a byte order is a
matter of storage; zarr-python nevertheless sees them as numcodecs does. What is written here says
the same to both: every filter states the order in which its items come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from omnizarr.errors import InvalidMetadata
from omnizarr.formats.numpy_types import byte_orders, from_type_string, itemsize, to_type_string
from omnizarr.model import Named
from omnizarr.model.numcodecs_ids import ARRAY_TO_ARRAY, PREFIX

# The members that state the types of decoded and of encoded items.
_MEMBERS = {
    **dict.fromkeys(("delta", "fixedscaleoffset", "quantize", "categorize"), ("dtype", "astype")),
    "astype": ("decode_dtype", "encode_dtype"),
}
_DEFAULTS = {"categorize": "|u1"}  # of encoded items; others give the type that they take


@dataclass(frozen=True, slots=True)
class Items:
    """Size and byte order of items; None for what they do not have, or is not known."""

    size: int | None
    order: str | None

    def fits(self, stated: Items | None) -> bool:
        """Return whether a filter that states such items sees these as they are."""
        if stated is None or None in (self.size, stated.size):
            return True
        orders = {self.order, stated.order} - {None}
        return self.size == stated.size and len(orders) < 2


def items_of(data_type: Named) -> Items:
    """Return size and order of the items of an array."""
    try:
        orders = byte_orders(data_type)
        # Fields of structures are never converted one by one.
        known = len(orders) == 1 and data_type.name not in ("struct", "structured")
        return Items(itemsize(data_type), next(iter(orders)) if known else None)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError):
        return Items(None, None)  # a malformed configuration; binding the type reports it


def taken(step: dict[str, Any]) -> Items | None:
    """Return the items that a filter states to take, or None where it takes any."""
    found = _stated(step, 0)
    return None if found is None else items_of(found)


def given(step: dict[str, Any], before: Items) -> Items:
    """Return the items that a filter gives."""
    if step["id"] == "packbits":
        return Items(1, None)
    found = _stated(step, 1) or _stated(step, 0)
    return before if found is None else items_of(found)


def as_step(codec: Named) -> dict[str, Any] | None:
    """Return the configuration, with its id, of a filter on arrays; None for other codecs."""
    id_ = codec.name.removeprefix(PREFIX)
    if id_ not in ARRAY_TO_ARRAY or (id_ == codec.name and id_ != "bitround"):
        return None
    return {**codec.configuration, "id": id_}


def ordered(steps: Iterable[dict[str, Any]], before: str | None) -> list[dict[str, Any]]:
    """Return filters that each state the byte order in which items come from the one before."""
    out = []
    for step in steps:
        step = _with_orders(step, before)
        before = given(step, Items(None, before)).order
        out.append(step)
    return out


def ending(steps: list[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    """Return filters the last of which gives items in that order, as they are stored."""
    for i in reversed(range(len(steps))):
        if taken(steps[i]) is not None:
            return [*steps[:i], _with_orders(steps[i], None, order), *steps[i + 1 :]]
    return steps


def _stated(step: dict[str, Any], side: int) -> Named | None:
    """Return the type of decoded (0) or encoded (1) items, where it is stated and known."""
    members = _MEMBERS.get(step["id"])
    text = None if members is None else step.get(members[side])
    if text is None and side == 1:
        text = _DEFAULTS.get(step["id"])
    if not isinstance(text, str) or not text:
        return None
    try:
        return from_type_string(text, order_needed=False)
    except InvalidMetadata:
        named = Named(text)  # such as "float32"
        return named if itemsize(named) else None


def _with_orders(
    step: dict[str, Any], taken: str | None, given: str | None = None
) -> dict[str, Any]:
    """Return the filter with other byte orders stated; None leaves one as it is."""
    before = _stated(step, 0)
    stated = _stated(step, 1)
    if before is None:
        return step
    out, (decoded, encoded) = dict(step), _MEMBERS[step["id"]]
    first, last = in_order(before, taken), in_order(stated or before, given)
    if first != before:
        out[decoded] = to_type_string(first, "2")
    if last != (stated or first):
        out[encoded] = to_type_string(last, "2")
    return out


def in_order(data_type: Named, order: str | None) -> Named:
    """Return the type with its items in that byte order, where it has one."""
    if order is None or items_of(data_type).order in (None, order):
        return data_type
    return data_type.replace(endian="big") if order == "big" else data_type.without("endian")
