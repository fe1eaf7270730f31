"""Indexing: selections become plans."""

from omnizarr.indexing.compose import AxisSelection, PointSelection, Selection, everything
from omnizarr.indexing.plan import AxisPlan, ListedAxisPlan, Plan, PointPlan, ProductPlan, Row
from omnizarr.indexing.select import axis_plan, block_plan, mask_plan, plan, point_plan

__all__ = [
    "AxisPlan",
    "AxisSelection",
    "ListedAxisPlan",
    "Plan",
    "PointPlan",
    "PointSelection",
    "ProductPlan",
    "Row",
    "Selection",
    "axis_plan",
    "block_plan",
    "everything",
    "mask_plan",
    "plan",
    "point_plan",
]
