"""Bulk operations as descriptions, to be looked at, sent elsewhere, or run on a cluster.

>>> import omnizarr as oz
>>> oz.save("by-row.zarr", np.zeros((100, 100)), chunks=(1, 100))
>>> job = oz.jobs.Rechunk("by-row.zarr", "by-column.zarr", chunks=(100, 1))
>>> len(job.plan().stages)
1
>>> oz.run(job, on="threads").arrays
1
"""

from typing import TYPE_CHECKING

from omnizarr import registry
from omnizarr.ops.job import Job, Outcome, Plan, Progress, Stage, Task, run

if TYPE_CHECKING:
    from omnizarr.conventions.ome.pyramid import BuildPyramid
    from omnizarr.integrations.files.exporting import Export
    from omnizarr.integrations.files.importing import Import
    from omnizarr.ops.analysis.diff import Diff
    from omnizarr.ops.analysis.stats import Stats
    from omnizarr.ops.analysis.usage import DiskUsage
    from omnizarr.ops.convert import Convert
    from omnizarr.ops.copy_store import Copy
    from omnizarr.ops.rechunk.job import Rechunk
    from omnizarr.ops.verify import Verify

__all__ = [
    "BuildPyramid",
    "Convert",
    "Copy",
    "Diff",
    "DiskUsage",
    "Export",
    "Import",
    "Job",
    "Outcome",
    "Plan",
    "Progress",
    "Rechunk",
    "Stage",
    "Stats",
    "Task",
    "Verify",
    "run",
]

# Loaded on first use, so that a command loads its own job only.
_LATER = {
    "BuildPyramid": "conventions.ome.pyramid:BuildPyramid",
    "Convert": "ops.convert:Convert",
    "Copy": "ops.copy_store:Copy",
    "Diff": "ops.analysis.diff:Diff",
    "DiskUsage": "ops.analysis.usage:DiskUsage",
    "Export": "integrations.files.exporting:Export",
    "Import": "integrations.files.importing:Import",
    "Rechunk": "ops.rechunk.job:Rechunk",
    "Stats": "ops.analysis.stats:Stats",
    "Verify": "ops.verify:Verify",
}

if not TYPE_CHECKING:  # for which any name would be one of the module's
    __getattr__ = registry.attributes(__name__, _LATER)
