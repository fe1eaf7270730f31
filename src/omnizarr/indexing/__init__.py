"""Indexing: selections become plans."""

from omnizarr.indexing.plan import Plan, Row, plan

__all__ = ["Plan", "Row", "plan"]
