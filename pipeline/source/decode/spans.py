"""Byte strings that lie somewhere in a buffer, one of each record."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sordini.pipeline.source.decode.varints import Bytes, Numbers, read_varints


class Span(NamedTuple):
    """Where each byte string begins and ends; one that ends before it begins is null."""

    start: Numbers
    end: Numbers

    @property
    def is_null(self) -> npt.NDArray[np.bool_]:
        return self.end < self.start

    def cut(self, rows: slice) -> Span:
        """Some of them, one after another."""
        return Span(self.start[rows], self.end[rows])


def read_spans(buffer: Bytes, at: Numbers) -> tuple[Span, Numbers] | None:
    """The byte strings whose lengths stand at `at`, and the position after each; None where a length is no number.

    They may lie outside the buffer.
    """
    length, start, is_right = read_varints(buffer, at)
    if not is_right:
        return None
    # Any length below 0 is null, as Apache Kafka reads it.
    end = start + length
    return Span(start, end), np.maximum(start, end)
