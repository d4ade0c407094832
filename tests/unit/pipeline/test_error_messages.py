"""Every exception that a user can cause becomes one line with its cause, whichever library raised it."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from py4j.protocol import Py4JNetworkError
from pyiceberg.exceptions import NoSuchTableError
from pyspark.errors import AnalysisException, PySparkRuntimeError, PythonException

from sordini.pipeline.error_messages import LETTERS_MAX, has_message, message_of, root_cause_of
from sordini.pipeline.errors import BadSetting

STACK = "\n".join(f"\tat org.apache.spark.Thing.call(Thing.scala:{number})" for number in range(80))
WORKER = f"""Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "staging.py", line 3, in task
    raise ValueError
sordini.pipeline.errors.OffsetLost: views-0 has offsets 5 to 9 (exclusive), and 3 was requested: gone

{STACK}"""


def raised_by_delta(folder: Path) -> Exception:
    write_deltalake(str(folder), pa.table({"a": [1]}))
    with pytest.raises(Exception, match="field") as caught:
        write_deltalake(str(folder), pa.table({"a": ["x"], "b": [2]}), mode="append")
    return caught.value


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (BadSetting("file_bytes is a number"), "file_bytes is a number"),
        (PermissionError(errno.EACCES, "Permission denied", "lake/views"), "lake/views: Permission denied"),
        (OSError("Generic S3 error: Missing credentials\nDebug source:\n at 0x1"), "Generic S3 error: Missing credentials"),
        (OSError("Generic S3 error\n    \x1b[31m↳\x1b[0m Error performing PUT\n     \x1b[31m↳\x1b[0m a cause\n"), "Generic S3 error: Error performing PUT: a cause"),
        (AnalysisException("[UNRESOLVED_COLUMN] A column `pge` cannot be resolved. SQLSTATE: 42703; line 1 pos 0;\n'Aggregate\n+- x"), "[UNRESOLVED_COLUMN] A column `pge` cannot be resolved"),
        (PythonException(WORKER), "views-0 has offsets 5 to 9 (exclusive), and 3 was requested: gone"),
        (PySparkRuntimeError(f"Python worker failed to connect back.\n{STACK}"), "Spark's Python process did not start in the ten seconds that Spark gives it"),
        (Py4JNetworkError("Answer from Java side is empty"), "Answer from Java side is empty"),
        (NoSuchTableError("Table does not exist: default.views"), "Table does not exist: default.views"),
        (pa.ArrowInvalid("Could not convert 'x' with type str\nmore"), "Could not convert 'x' with type str"),
        (sqlite3.OperationalError("unable to open database file"), "unable to open database file"),
        (OSError(), "OSError"),
    ],
)  # fmt: skip
def test_an_exception_of_any_library_becomes_one_line(error: Exception, reported: str) -> None:
    assert has_message(error)
    said = message_of(error)
    assert said.startswith(reported)
    assert "\n" not in said
    assert "Thing.scala" not in said


def test_what_deltalake_itself_raises_has_a_message(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"\S") as caught:
        DeltaTable(str(tmp_path))
    for error in (caught.value, raised_by_delta(tmp_path / "t")):
        assert has_message(error), type(error)
        assert "\n" not in message_of(error)


def test_a_mistake_of_ours_is_not_put_into_words() -> None:
    for mistake in (KeyError("x"), AssertionError(), TypeError("x"), ValueError("x"), RuntimeError("x")):
        assert not has_message(mistake)


AZURE = "GetProperties failed for 'https://a.blob.core.windows.net/c/t?sig=hush%2Fh&sv=2021'. Azure Error: [] 418"


@pytest.mark.parametrize("of", [OSError, BadSetting, pa.ArrowInvalid])
def test_a_signature_in_a_url_that_a_library_quotes_is_hidden(of: type[Exception]) -> None:
    said = message_of(of(AZURE))
    assert (
        said
        == "GetProperties failed for 'https://a.blob.core.windows.net/c/t?sig=(hidden)&sv=2021'. Azure Error: [] 418"
    )
    url = "https://b.s3.amazonaws.com/x?X-Amz-Date=1&X-Amz-Security-Token=hush&X-Amz-Signature=hush"
    assert "hush" not in root_cause_of(f"Failed: {url} {'x' * LETTERS_MAX}")


def test_a_line_has_an_end() -> None:
    assert len(root_cause_of("x" * 10_000)) == LETTERS_MAX + len(" ...")


def test_what_a_store_refuses_is_named_with_its_place_where_a_sentence_of_ours_has_it() -> None:
    code = "obstore.exceptions.PermissionDeniedError: 403 Forbidden: <Code>AccessDenied</Code>"
    ours = "sordini.pipeline.jobs.state_files.StateError: s3://lake/state/done.json refuses access: the credentials lack a permission for it (get, put, list or delete)"
    stack = (
        f"Traceback (most recent call last):\n  File x\n{code}\n\nTraceback (most recent call last):\n{ours}\n\tat java"
    )
    assert root_cause_of(stack) == ours.partition(": ")[2]
    assert root_cause_of(f"{stack}\nsordini.pipeline.errors.PipelineError: later") == ours.partition(": ")[2]
    assert root_cause_of(code).startswith("the object store refuses access: the credentials lack a permission")
