from typing import Any

import numpy.typing as npt

from omnizarr.codecs.codec import Buffer

def encode(array: npt.NDArray[Any], /) -> bytes | None: ...
def decode(data: Buffer, array: npt.NDArray[Any], /) -> bool: ...
