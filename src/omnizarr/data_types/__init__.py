"""Data types: tables of rows that tie a name to NumPy and to the spelling of fill values."""

from omnizarr import registry
from omnizarr.data_types import extended, numeric, raw, struct, text, time
from omnizarr.data_types.data_type import DataType, own_type
from omnizarr.data_types.describe import describe
from omnizarr.data_types.numpy_key import value_key
from omnizarr.data_types.struct import bind_name as bind

__all__ = ["DataType", "bind", "describe", "own_type", "value_key"]

for _family in (numeric, extended, raw, struct, text, time):
    for _name in _family.NAMES:
        registry.register("data_type", _name, _family.bind)
