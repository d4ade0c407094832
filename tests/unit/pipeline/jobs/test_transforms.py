"""Modules of transforms beside job files: which one a job gets, and that Spark's workers need not find it."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from sordini.pipeline import Job, PipelineError
from sordini.pipeline.jobs.transforms import load_transform

HELPER = "factor_{0}"


@pytest.fixture(autouse=True)
def modules_as_before() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def a_job(folder: Path, factor: int, transform: str) -> Job:
    folder.mkdir()
    helper = HELPER.format(factor)
    (folder / f"{helper}.py").write_text(f"FACTOR = {factor}\n\n\ndef times(number):\n    return FACTOR * number\n")
    (folder / "job_flags.py").write_text(
        f"from {helper} import times\n\n\ndef flagged(number):\n    return times(number)\n"
    )
    (folder / "job_pack").mkdir()
    (folder / "job_pack/__init__.py").touch()
    (folder / "job_pack/inner.py").write_text(f"def flagged(number):\n    return {factor} * number\n")
    return Job.of(name="a", home=folder, source={"topics": ["t"]}, transform=transform, sink={"location": "t"})


@pytest.mark.parametrize("transform", ["job_flags:flagged", "job_pack.inner:flagged"])
def test_jobs_of_two_folders_have_each_the_module_beside_its_file(tmp_path: Path, transform: str) -> None:
    one, other = a_job(tmp_path / "one", 3, transform), a_job(tmp_path / "other", 5, transform)
    found: list[Any] = [load_transform(job) for job in (one, other, one)]
    assert [function(2) for function in found] == [6, 10, 6]
    assert found[0] is found[2], "a module is imported once"


@pytest.mark.parametrize("transform", ["job_flags:flagged", "job_pack.inner:flagged"])
def test_what_a_module_beside_the_job_file_defines_works_where_there_is_no_such_module(
    tmp_path: Path, transform: str
) -> None:
    job = a_job(tmp_path / "one", 7, transform)
    sent = cloudpickle.dumps(load_transform(job))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("job_flags", "job_pack", HELPER.format(7))]:
        del sys.modules[name]
    sys.path.remove(str(job.home))
    assert pickle.loads(sent)(2) == 14
    assert not {"job_flags", "job_pack"} & set(sys.modules)


def test_modules_of_the_environment_are_sent_by_name(tmp_path: Path) -> None:
    job = a_job(tmp_path / "one", 2, "json:dumps")
    assert b"json" in cloudpickle.dumps(load_transform(job))
    assert load_transform(job)([1]) == "[1]"  # type: ignore[arg-type,comparison-overlap]


@pytest.mark.parametrize("name", ["json", "sys"])
def test_a_module_named_like_one_of_pythons_own_does_not_replace_it(tmp_path: Path, name: str) -> None:
    job = a_job(tmp_path / "one", 2, f"{name}:flagged")
    (job.home / f"{name}.py").write_text("def flagged(rows):\n    return rows\n")
    before = sys.modules[name]
    with pytest.raises(PipelineError, match=f"transform {name}:flagged: .* has no flagged"):
        load_transform(job)
    assert sys.modules[name] is before
