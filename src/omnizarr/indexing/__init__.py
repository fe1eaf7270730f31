"""Indexing: selections become plans."""

from omnizarr.indexing.plan import AxisPlan, ListedAxisPlan, Plan, PointPlan, ProductPlan, Row
from omnizarr.indexing.select import axis_plan, block_plan, mask_plan, plan, point_plan

__all__ = [
    "AxisPlan",
    "ListedAxisPlan",
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
