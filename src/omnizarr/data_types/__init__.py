"""Data types: tables of rows that tie a name to NumPy and to the spelling of fill values."""

from omnizarr import registry
from omnizarr.data_types import flexible, numeric, struct
from omnizarr.data_types.data_type import DataType, as_type, own_type, value_key
from omnizarr.data_types.describe import describe
from omnizarr.data_types.struct import bind_name as bind

__all__ = ["DataType", "as_type", "bind", "describe", "own_type", "value_key"]

for _names, _bind in (
    (numeric.NUMERIC_NAMES, numeric.bind_numeric),
    (numeric.EXTENDED_NAMES, numeric.bind_extended),
    (numeric.COMPLEX_PARTS, numeric.bind_small_complex),
    (flexible.RAW_NAMES, flexible.bind_raw),
    (struct.STRUCT_NAMES, struct.bind_struct),
    (flexible.TEXT_NAMES, flexible.bind_text),
    (numeric.TIME_NAMES, numeric.bind_time),
):
    for _name in _names:
        registry.register("data_type", _name, _bind)
for _name in ("zarrs.optional", "optional"):
    registry.register("data_type", _name, "omnizarr.data_types.optional:bind_optional")
