"""Bulk operations as descriptions, to be looked at, sent elsewhere, or run on a cluster.

>>> import omnizarr as oz
>>> oz.save("by-row.zarr", np.zeros((100, 100)), chunks=(1, 100))
>>> job = oz.jobs.Rechunk("by-row.zarr", "by-column.zarr", chunks=(100, 1))
>>> len(job.plan().phases)
1
>>> oz.run(job, on="threads").arrays
1
"""

from typing import TYPE_CHECKING

from omnizarr import registry
from omnizarr.bulk.job import Job, Phase, Plan, Progress, run
from omnizarr.bulk.journal import Outcome, Task

if TYPE_CHECKING:
    from omnizarr.bulk.analysis.diff import Diff
    from omnizarr.bulk.analysis.stats import Stats
    from omnizarr.bulk.convert import Convert
    from omnizarr.bulk.copy import Copy
    from omnizarr.bulk.rechunk.job import Rechunk
    from omnizarr.bulk.verify import Verify
    from omnizarr.conventions.ome.pyramid import BuildPyramid
    from omnizarr.interop.files.exporting import Export
    from omnizarr.interop.files.importing import Import

__all__ = [
    "BuildPyramid",
    "Convert",
    "Copy",
    "Diff",
    "Export",
    "Import",
    "Job",
    "Outcome",
    "Phase",
    "Plan",
    "Progress",
    "Rechunk",
    "Stats",
    "Task",
    "Verify",
    "run",
]

# Loaded on first use, so that a command loads its own job only.
_LATER = {
    "BuildPyramid": "conventions.ome.pyramid:BuildPyramid",
    "Convert": "bulk.convert:Convert",
    "Copy": "bulk.copy:Copy",
    "Diff": "bulk.analysis.diff:Diff",
    "Export": "interop.files.exporting:Export",
    "Import": "interop.files.importing:Import",
    "Rechunk": "bulk.rechunk.job:Rechunk",
    "Stats": "bulk.analysis.stats:Stats",
    "Verify": "bulk.verify:Verify",
}

if not TYPE_CHECKING:  # for which any name would be one of the module's
    __getattr__ = registry.attributes(__name__, _LATER)
