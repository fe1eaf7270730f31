"""Options of jobs are declared once: functions, jobs and help agree."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest

import omnizarr as oz
from omnizarr.bulk.options import RunOptions, option_help

JOBS: dict[Any, Any] = {
    oz.copy: oz.jobs.Copy,
    oz.convert: oz.jobs.Convert,
    oz.rechunk: oz.jobs.Rechunk,
    oz.verify: oz.jobs.Verify,
    oz.stats: oz.jobs.Stats,
    oz.diff: oz.jobs.Diff,
    oz.export_file: oz.jobs.Export,
    oz.pyramid: oz.jobs.BuildPyramid,
}
ALL = [*JOBS.values(), oz.jobs.Import]
RUN = {each.name for each in fields(RunOptions)}
# Fields that only programs which make jobs set, and the option that chooses between two jobs.
OF_JOBS = {"dry_run", "destination_path", "choose", "measure", "resume", "listed"}
OF_FUNCTIONS = {"zarr_format"}


@pytest.mark.parametrize(("function", "job"), JOBS.items())
def test_a_function_takes_the_options_of_its_job_and_of_run(function: Any, job: Any) -> None:
    shown = inspect.signature(function).parameters
    declared = inspect.signature(job).parameters
    own = shown.keys() - RUN
    assert own ^ declared.keys() <= OF_JOBS | OF_FUNCTIONS
    for name in own & declared.keys():
        assert (shown[name].default, shown[name].kind) == (
            declared[name].default,
            declared[name].kind,
        )
        assert f"    {name}: {option_help(job)[name][:40]}" in function.__doc__
    assert shown.keys() >= RUN


@pytest.mark.parametrize("job", ALL)
def test_every_option_of_a_job_has_a_help_that_is_a_sentence(job: Any) -> None:
    helps = {name: text for name, text in option_help(job).items() if name not in OF_JOBS}
    assert all(text[0].isupper() or text.startswith("`") for text in helps.values())
    assert all(text.endswith(".") for text in helps.values())


def test_run_takes_the_options_that_functions_of_jobs_take() -> None:
    shown = inspect.signature(oz.run).parameters
    assert [*shown] == ["job", *option_help(RunOptions)]
    assert [shown[each.name].default for each in fields(RunOptions)] == [
        each.default for each in fields(RunOptions)
    ]


def test_a_wrong_argument_names_the_function() -> None:
    with pytest.raises(TypeError, match=r"stats\(\) got an unexpected keyword argument 'bims'"):
        oz.stats({}, bims=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"diff\(\) missing a required argument: 'b'"):
        oz.diff({})  # type: ignore[call-arg]
