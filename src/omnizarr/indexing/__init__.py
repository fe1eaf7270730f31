"""Indexing: selections become plans."""

from omnizarr.indexing.plan import AxisPlan, Plan, PointPlan, ProductPlan, Row
from omnizarr.indexing.select import axis_plan, block_plan, mask_plan, plan, point_plan

__all__ = [
    "AxisPlan",
    "Plan",
    "PointPlan",
    "ProductPlan",
    "Row",
    "axis_plan",
    "block_plan",
    "mask_plan",
    "plan",
    "point_plan",
]
