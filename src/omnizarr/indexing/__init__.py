"""Indexing: selections become plans."""

from omnizarr.indexing.plan import ListedAxisPlan, Plan, PointPlan, ProductPlan, Row, Run
from omnizarr.indexing.selection import (
    AxisSelection,
    PointSelection,
    Selection,
    axis_plan,
    block_plan,
    everything,
    mask_plan,
    plan,
    point_plan,
)

__all__ = [
    "AxisSelection",
    "ListedAxisPlan",
    "Plan",
    "PointPlan",
    "PointSelection",
    "ProductPlan",
    "Row",
    "Run",
    "Selection",
    "axis_plan",
    "block_plan",
    "everything",
    "mask_plan",
    "plan",
    "point_plan",
]
