"""omnizarr side by side with other Zarr libraries: ``make bench`` or ``make bench QUICK=1``.

One file a question in `questions`; `harness` asks every library in turn and keeps the best of
several times; `report` and `plot` write what came out.
"""
