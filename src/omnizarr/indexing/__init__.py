"""Indexing: selections become plans. The core imports names from here."""

from omnizarr.indexing.plan import Plan, PointPlan, ProductPlan, Row, Run
from omnizarr.indexing.selection import axis_plan, on_grid, plan, point_plan
