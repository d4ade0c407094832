"""Jobs that a program makes without a file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from sordini.pipeline.jobs.job import Job, JobFileError
from sordini.pipeline.jobs.job_file import job_of_settings
from sordini.pipeline.jobs.transforms import load_transform
from tests.unit.pipeline.jobs.test_job_file import LARGE, SMALL, read


@pytest.mark.parametrize("text", [SMALL, LARGE])
def test_settings_of_a_program_are_the_job_that_the_same_file_is(tmp_path: Path, text: str) -> None:
    assert Job.of(home=tmp_path, **yaml.safe_load(text)) == read(tmp_path, text)
    assert Job.from_file(tmp_path / "job.yaml") == read(tmp_path, text)


def test_an_error_names_the_job_and_the_setting() -> None:
    settings = yaml.safe_load(SMALL)
    settings["decode"]["mode"] = "jsn"
    with pytest.raises(JobFileError, match=r"^job views: decode\.mode is 'jsn'; it can be .*\(did you mean json\?\)"):
        Job.of(**settings)
    with pytest.raises(JobFileError, match=r"^job: name is missing$"):
        Job.of(source={"topics": ["t"]})
    with pytest.raises(JobFileError, match=r"^job views: sinks is not known here \(did you mean sink\?\)"):
        Job.of(sinks={}, **yaml.safe_load(SMALL))
    with pytest.raises(JobFileError, match="transform is 7, which is not a text"):
        Job.of(transform=7, **yaml.safe_load(SMALL))


def test_a_transform_may_be_a_function_and_paths_and_times_may_be_values(tmp_path: Path) -> None:
    settings = yaml.safe_load(SMALL)
    settings["source"]["starting"] = datetime(2026, 11, 22, 8, tzinfo=UTC)
    settings["sink"]["location"] = Path("tables") / "views"

    def without_crawlers(rows: Any) -> Any:  # It cannot be imported by its name.
        return rows

    job = Job.of(home=tmp_path, transform=without_crawlers, **settings)
    assert load_transform(job) is without_crawlers
    assert job.transform.endswith(".<locals>.without_crawlers")
    assert job.source.starting == "1795334400000"
    assert job.sink is not None
    assert job.sink.location == str(tmp_path.resolve() / "tables/views")


def test_variables_of_the_environment_are_filled_in(tmp_path: Path) -> None:
    settings = {**yaml.safe_load(SMALL), "state": "${STATE}/views"}
    job = job_of_settings(settings, tmp_path, {"STATE": "s3://lake/state", "SORDINI_BOOTSTRAP": "there:9092"})
    assert (job.state, job.source.bootstrap) == ("s3://lake/state/views", "there:9092")
