"""Errors of a call: of whichever library, a PipelineError with one sentence; a bug of ours keeps its own type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sordini.pipeline.errors import INSTALL, PipelineError

EXTRA: Final = frozenset({"pyspark", "pyarrow", "numpy", "pandas", "deltalake", "pyiceberg", "fastavro", "yaml"})
"""The packages of the extra `spark`."""


@contextmanager
def pipeline_errors() -> Iterator[None]:
    """Raise what settings, data or the machine cause as PipelineError, with the original as its cause."""
    try:
        yield
    except PipelineError:
        raise
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        raise PipelineError(f"{package} is not installed; the pipeline needs it: {INSTALL}") from error
    except BrokenPipeError:
        raise  # The reader of a command's output has gone: no fault of the job.
    except Exception as error:  # All of them - no common base class; our own bugs are raised again.
        from sordini.pipeline.error_messages import has_message, message_of  # It may import Arrow.

        if not has_message(error):
            raise
        gone = "Spark's process has ended: " if isinstance(error, ConnectionError) else ""
        raise PipelineError(f"{gone}{message_of(error)}") from error
