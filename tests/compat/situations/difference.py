"""One way in which Sordini may answer otherwise than Apache Kafka; `differences.py` has the list."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

ANYTHING = object()
ABSENT = "(not there)"


class Difference(NamedTuple):
    """sentence, path: patterns of the situations and of the leaves that may differ; ours: what they are then."""

    sentence: str
    path: str
    ours: Any
    why: str

    def permits(self, path: str, leaf: Any) -> bool:
        return fnmatchcase(path, self.path) and (self.ours is ANYTHING or bool(leaf == self.ours))

    @property
    def must_occur(self) -> bool:
        """Whether it is about one situation alone, where it has to be seen."""
        return "*" not in self.sentence


def several(sentence: str, leaves: dict[str, Any], why: str) -> Iterator[Difference]:
    return (Difference(sentence, path, ours, why) for path, ours in leaves.items())
