"""Where Sordini answers otherwise than Apache Kafka 3.9.1 on purpose: what, and why.

This is the whole list; docs/compatibility.md is written from it. A difference that no longer occurs is a
failure too, so the list cannot outlive its reasons.
"""

from typing import Any, NamedTuple

ANYTHING = object()


class Difference(NamedTuple):
    """sentence: of the situation; path: pattern of the leaves that may differ; ours: what they must be then."""

    sentence: str
    path: str
    ours: Any
    why: str

    def permits(self, leaf: Any) -> bool:
        return self.ours is ANYTHING or bool(leaf == self.ours)


_NO_ANSWER = (
    "Apache Kafka meets a null pointer here and leaves the client without any answer; a refusal lets the client go on."
)
_CODEC = "Apache Kafka answers UNKNOWN_SERVER_ERROR, which producers retry for minutes; the codec is what is wrong."
_GARBAGE = "Apache Kafka answers UNKNOWN_SERVER_ERROR with a stack trace in its log; the bytes are what is wrong."
_FILLER = (
    "Apache Kafka announces the size before it converts to the old format and fills what is left over with "
    "bytes of no meaning; we send what there is."
)

DIFFERENCES: list[Difference] = [
    Difference("Produce of null and of empty records", "null v*", "(not there)", _NO_ANSWER),
    Difference("Produce of null and of empty records", "null v*/error_code", 87, _NO_ANSWER),
    Difference("Produce of null and of empty records", "null v*/*", ANYTHING, _NO_ANSWER),
]
