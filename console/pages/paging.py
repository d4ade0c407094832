"""A part of a long list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sordini.system.named_tuple import NamedTuple


class Paging(NamedTuple):
    """The rows of one page, and where it is among the others."""

    rows: Sequence[Any]
    page: int
    pages: int
    total: int
    first: int
    """The number of the first row, from 1 on; 0 without rows."""

    @staticmethod
    def of(rows: Sequence[Any], page: int, size: int) -> Paging:
        """A page that is beyond the last is the last."""
        pages = max(1, -(-len(rows) // size))
        page = min(page, pages)
        start = (page - 1) * size
        return Paging(rows[start : start + size], page, pages, len(rows), start + 1 if rows else 0)
