"""Dead letters as brokers write them (KIP-1191): which record of which group, after how many deliveries, and why. Pure.

A dead letter has the key and the value of its record where the group copies records
(`errors.deadletterqueue.copy.record.enable`), else neither, and these headers, all of them text:

    __dlq.errors.topic  __dlq.errors.partition  __dlq.errors.offset      where its record is, or was
    __dlq.errors.group                                                   the share group that gave it up
    __dlq.errors.delivery.count                                          how often it was delivered
    __dlq.errors.message                                                 why it was given up
"""

from __future__ import annotations

from typing import Final

from sordini.protocol.records.batch import Record
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

PREFIX: Final = "__dlq.errors."
"""Of the headers that brokers add."""


class DeadLetter(NamedTuple):
    """One dead letter of one partition of a dead-letter topic."""

    offset: int
    timestamp_ms: int
    partition: TopicPartition
    """Of the record that was given up."""
    record_offset: int
    group: str
    deliveries: int | None
    reason: str | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    """Those that brokers have not added."""

    @property
    def has_record(self) -> bool:
        """Whether the record is in it; otherwise it may still be where it was."""
        return self.key is not None or self.value is not None


class LetterFilter(NamedTuple):
    """Which dead letters: of a group, and with a text in their reason in any case; None is all."""

    group: str | None = None
    reason: str | None = None

    def passes(self, letter: DeadLetter) -> bool:
        """Whether this is one of them."""
        if self.group is not None and letter.group != self.group:
            return False
        return self.reason is None or self.reason.casefold() in (letter.reason or "").casefold()


def read_dead_letter(record: Record) -> DeadLetter | None:
    """The dead letter in a record; None for a record that is none."""
    context = {name.removeprefix(PREFIX): value for name, value in record.headers if name.startswith(PREFIX)}
    topic, group = _text(context.get("topic")), _text(context.get("group"))
    partition, offset = _number(context.get("partition")), _number(context.get("offset"))
    if not topic or group is None or partition is None or offset is None:
        return None
    return DeadLetter(
        record.offset,
        record.timestamp,
        TopicPartition(topic, partition),
        offset,
        group,
        _number(context.get("delivery.count")),
        _text(context.get("message")),
        record.key,
        record.value,
        tuple(header for header in record.headers if not header[0].startswith(PREFIX)),
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _number(value: bytes | None) -> int | None:
    """A number of at most 19 digits; None for anything else."""
    if value is None or not (value.isdigit() and len(value) <= 19):
        return None
    return int(value)
