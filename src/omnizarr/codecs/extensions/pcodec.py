"""pcodec: lossless compression of numbers by bins of their most frequent values.

It is ``pcodec`` in version 2 and ``numcodecs.pcodec`` in version 3: the standalone format of the
package pcodec over the items in C order, ``{"level": 8, "mode_spec": "auto", …}``. Only encoding
needs the members, all optional. Times are stored as the integers that they are, and complex
numbers, as zarrs writes them, as their two parts in turn.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.codec import ArrayBytesCodec, Buffer, Spec, require
from omnizarr.data_types.cast import is_complex_pair
from omnizarr.errors import InvalidMetadata

_NO_DELTA = ("none", "no_op")  # the second in newer versions of numcodecs


@dataclass(frozen=True, slots=True)
class Pcodec(ArrayBytesCodec):
    """``pcodec`` of numcodecs."""

    level: int = 8
    mode_spec: str = "auto"
    delta_spec: str = "auto"
    paging_spec: str = "equal_pages_up_to"
    delta_encoding_order: int | None = None
    equal_pages_up_to: int = 2**18

    name: ClassVar[str] = "numcodecs.pcodec"
    package: ClassVar[tuple[str, str] | None] = ("pcodec.standalone", "pcodec")

    def __post_init__(self) -> None:
        self.check_integer("level", 0, 12)
        self.check_integer("equal_pages_up_to", 1, 2**63 - 1)
        if self.delta_encoding_order is not None:
            self.check_integer("delta_encoding_order", 0, 7)

    def encoded_size(self, spec: Spec) -> int | None:
        """Return None; raise if the codec cannot take such chunks."""
        dtype = _numbers(np.empty(0, spec.data_type.dtype)).dtype
        if dtype.kind not in "iufmM" or dtype.itemsize > 8 or not dtype.isnative:
            raise InvalidMetadata(
                f"codec {self.name!r} takes integers and floats in the byte order of this machine,"
                f" not {spec.data_type.dtype}"
            )
        return None

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        from numcodecs.pcodec import PCodec  # noqa: PLC0415 - it needs the package pcodec

        config = asdict(self)
        if self.delta_spec in _NO_DELTA:  # by a name that all versions of numcodecs have
            config |= {"delta_spec": "try_consecutive", "delta_encoding_order": 0}
        stream: bytes = PCodec(**config).encode(_numbers(np.ascontiguousarray(array)))
        return stream

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        out = np.empty(spec.size, spec.data_type.dtype)
        numbers = _numbers(out)
        package = require("pcodec.standalone", self.name, "pcodec")
        done = package.simple_decompress_into(bytes(data), numbers)
        if not done.finished or done.n_processed != numbers.size:
            more = "" if done.finished else " and more"
            found = f"{done.n_processed} items{more}"
            raise ValueError(f"the chunk has {found}, expected {numbers.size}")
        return out.reshape(spec.shape)


def _numbers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array as one axis: times as integers, complex numbers as their two parts."""
    flat = array.reshape(-1)
    if is_complex_pair(array.dtype):
        return flat.view(array.dtype["real"])
    if array.dtype.kind == "c":
        return flat.view(f"{array.dtype.byteorder}f{array.dtype.itemsize // 2}")
    return flat.view("i8") if array.dtype.kind in "mM" else flat
