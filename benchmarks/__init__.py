"""Benchmarks of omnizarr and other Zarr libraries: ``make bench`` or ``make bench QUICK=1``.

`cases` has one file per group of benchmarks; `harness` measures the libraries alternately and keeps
the best of several times; `report` and `plot` write the results.
"""
