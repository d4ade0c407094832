"""The transform of a job: a function of the user's, in a module beside the job file or anywhere on Python's path.

Jobs of several folders may run in one process, each with a module of the same name. And Spark's workers do not have the
folder on their path, so what a module beside the job file defines is sent to them with the functions that use it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module, invalidate_caches
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from sordini.cli.common.settings_tree import near_to
from sordini.pipeline.error_messages import has_message, message_of
from sordini.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sordini.pipeline.jobs.job import Job

_IMPORTED: Final[dict[tuple[str, str], ModuleType]] = {}
"""By the folder of the job file, and the module's name."""
_IMPORTING: Final = threading.RLock()
_OURS: Final = __name__.partition(".")[0]


def transformed(job: Job, rows: DataFrame) -> DataFrame:
    """The rows after the job's transform, if it has one. Raises PipelineError if that fails."""
    if not job.transform:
        return rows
    function = load_transform(job)
    try:
        found = function(rows)
    except Exception as error:  # All of them - the function is the user's.
        reported = message_of(error) if has_message(error) else f"{type(error).__name__}: {error}"
        raise PipelineError(f"transform {job.transform} failed: {reported}") from error
    if not hasattr(found, "mapInArrow"):
        raise PipelineError(f"transform {job.transform} returns {type(found).__name__}, and has to return a DataFrame")
    return found


def load_transform(job: Job) -> Callable[[DataFrame], DataFrame]:
    """The job's transform: its function, or imported; modules beside the job file take precedence.

    Raises PipelineError.
    """
    if job.function is not None:
        return job.function
    module_name, _, function_name = job.transform.partition(":")
    home = str(job.home)
    try:
        found = getattr(_module(home, module_name), function_name)
    except (ImportError, SyntaxError) as error:
        raise PipelineError(f"transform {job.transform} (looked for in {home} first): {error}") from error
    except AttributeError:
        module = _module(home, module_name)
        functions = [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]
        place = getattr(module, "__file__", None) or f"Python's own {module_name}"
        raise PipelineError(
            f"transform {job.transform}: {place} has no {function_name}{near_to(function_name, functions)}"
        ) from None
    except Exception as error:  # All of them - the module is the user's, and anything may happen in it.
        raise PipelineError(f"transform {job.transform}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise PipelineError(f"transform {job.transform} is no function, but {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def _module(home: str, name: str) -> ModuleType:
    """The module of a job in this folder, imported once."""
    with _IMPORTING:
        if (home, name) not in _IMPORTED:
            _IMPORTED[home, name] = _imported(home, name)
        return _IMPORTED[home, name]


def _imported(home: str, name: str) -> ModuleType:
    top = name.partition(".")[0]
    invalidate_caches()
    beside = PathFinder.find_spec(top, [home])
    known = sys.modules.get(top)
    is_another = known is not None and getattr(known, "__file__", None) != (beside and beside.origin)
    if beside is not None and beside.origin and is_another and top not in sys.stdlib_module_names:
        # Another job's. Its functions keep what they use of it. Python's own modules are not replaced under all else.
        for other in [each for each in sys.modules if each == top or each.startswith(f"{top}.")]:
            del sys.modules[other]
    while home in sys.path:
        sys.path.remove(home)
    sys.path.insert(0, home)
    module = import_module(name)
    if home not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        _send_by_value(home)
    return module


def _send_by_value(home: str) -> None:
    """Let PySpark send the modules of a folder to its workers."""
    try:
        from pyspark import cloudpickle
    except ModuleNotFoundError:
        return  # A job file may be checked without Spark.
    for name, module in list(sys.modules.items()):
        places = (str(Path(home, f"{name}.py")), str(Path(home, name, "__init__.py")))
        if "." not in name and name != _OURS and getattr(module, "__file__", None) in places:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
