"""Indexing: selections become plans. The core imports names from here."""

from omnizarr.indexing.plan import Plan, PointPlan, ProductPlan, Row, Run
from omnizarr.indexing.selection import (
    AxisSelection,
    PointSelection,
    Selection,
    axis_plan,
    block_plan,
    everything,
    on_grid,
    plan,
    point_plan,
)
