"""What `sordini.pipeline` exports."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import sordini.pipeline
from sordini.pipeline import Job, PipelineError, Result
from sordini.pipeline.jobs.batch_writer import Batch
from sordini.pipeline.jobs.graceful_stop import BatchGate, Stopped
from sordini.pipeline.library.failures import EXTRA, pipeline_errors
from sordini.pipeline.library.results import BATCHES_KEPT

PAGE = Path(__file__).resolve().parents[4] / "docs" / "pipeline-library.md"


def test_importing_the_library_imports_nothing_of_the_extra_and_making_a_job_no_spark() -> None:
    program = (
        "import sys, sordini.pipeline as library\n"
        "from sordini.pipeline import load, stream, explain, status, spark_session, PipelineError\n"
        f"print(sorted({set(EXTRA)} & set(sys.modules)))\n"
        "from sordini.pipeline import Job\n"
        "Job.of(name='a', source={'topics': ['t']}, sink={'location': 'x'})\n"
        "print(sorted({'pyspark', 'pandas', 'deltalake', 'pyiceberg', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"


def test_each_public_name_is_where_the_table_says() -> None:
    for name in sordini.pipeline.__all__:
        assert getattr(sordini.pipeline, name).__module__.startswith("sordini.")
    assert dir(sordini.pipeline) == sorted(sordini.pipeline.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        sordini.pipeline.lode  # noqa: B018 - the attribute is looked up.


def test_each_function_is_on_the_page_and_has_a_docstring() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in sordini.pipeline.__all__:
        found = getattr(sordini.pipeline, name)
        if inspect.isfunction(found):
            assert f"`{name}(" in page or f"{name}(" in page, name
            assert found.__doc__, name


def test_errors_of_libraries_are_pipeline_errors_and_our_own_bugs_are_not() -> None:
    with pytest.raises(PipelineError, match="No such file or directory") as caught, pipeline_errors():
        Path("/no/such/file").read_text()
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    with pytest.raises(PipelineError, match="deltalake is not installed"), pipeline_errors():
        raise ModuleNotFoundError("No module named 'deltalake'", name="deltalake.fs")
    for bug in (KeyError("n"), ModuleNotFoundError("No module named 'x'", name="x"), BrokenPipeError()):
        with pytest.raises(type(bug)), pipeline_errors():
            raise bug


def test_a_result_counts_all_batches_and_has_the_last_ones() -> None:
    result = Result("views")
    for number in range(BATCHES_KEPT + 5):
        result.add(Batch(number, rows=3, dead=1, files=2, bytes=10, seconds=0.1, was_there=False))
    assert (result.rows, result.dead_letters, result.files) == (3015, 1005, 2010)
    assert result.batches_written == BATCHES_KEPT + 5
    assert [batch.batch_id for batch in result.batches][:2] == [5, 6]
    assert len(result.batches) == BATCHES_KEPT


def test_two_jobs_of_one_name_are_refused_before_anything_is_asked_of_a_broker() -> None:
    job = Job.of(name="a", source={"topics": ["t"], "bootstrap": "127.0.0.1:1"}, sink={"location": "x"})
    with pytest.raises(PipelineError, match="two of the jobs are called a"):
        sordini.pipeline.stream([job, job])


def test_an_event_of_the_caller_s_shuts_the_gate_of_a_run() -> None:
    event = threading.Event()
    gate = BatchGate(event)
    with gate.passed():
        event.set()
    assert gate.is_shut
    with pytest.raises(Stopped), gate.passed():
        pytest.fail("no batch begins after it")
