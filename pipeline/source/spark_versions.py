"""Which interfaces of Spark's data sources in Python a version has."""

from __future__ import annotations

from typing import Final

OLDEST: Final = (4, 0)
"""The first PySpark whose sources can be read as Arrow data."""
ARROW_STREAMS: Final = (4, 1)
"""The first one that passes a stream's rows to a sink as Arrow data."""
ADMISSION: Final = (4, 2)
"""The first one whose sources can bound a micro-batch and report log ends."""


def is_before(version: str, first: tuple[int, int]) -> bool:
    """Whether a version, such as 4.1.0 or 4.2.0.dev1, is older than the first one that has something."""
    major, minor, *_ = version.split(".")
    return (int(major), int(minor)) < first
