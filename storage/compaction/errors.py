"""What can be wrong with the segments that are to be cleaned."""

from __future__ import annotations


class DamagedSegment(Exception):
    """A segment's file does not hold what a log holds; nothing in the log was changed."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {why}")
        self.path = path
        self.position = position
