"""One share group of a test's cluster: `kafka.share_group("workers").expire_locks()`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.types import TopicPartition
from sordini.testing.arguments import text, texts, whole
from sordini.testing.clock import KafkaClock
from sordini.testing.faults.names import CodeName
from sordini.testing.faults.script import Rule
from sordini.testing.group_handle import GroupFault
from sordini.testing.own_client import KitError, NotInTime
from sordini.testing.owned_keys import settings
from sordini.testing.share_group_state import InFlightRecord, ShareGroupState, SharePartitionOffsets, records_in
from sordini.testing.share_groups import ShareGroups

ACQUIRED: Final = "acquired"
ACKNOWLEDGING: Final = (ApiKey.SHARE_ACKNOWLEDGE, ApiKey.SHARE_FETCH)
"""A fetch acknowledges, too, what the one before has brought."""
LEFT_SHOWN_MAX: Final = 10
"""Partitions that a failed assertion names."""
COUNT_MAX: Final = 1_000_000_000


class ShareGroupHandle:
    """What a test asks of a share group, and does to it."""

    def __init__(self, groups: ShareGroups, on: Callable[..., Rule], clock: KafkaClock, name: str) -> None:
        """`on` is `Kafka.on`. Raises ArgumentRefused."""
        self._groups = groups
        self._on = on
        self._clock = clock
        self.name = text("group", name)

    def configure(self, config: Mapping[str, object]) -> None:
        """Set settings of the group, which need not exist: `share.auto.offset.reset`. Raises KitError, ValueError."""
        self._groups.configure(self.name, settings(config))

    def describe(self) -> ShareGroupState:
        """The group and its members. Raises KitError."""
        return self._groups.describe(self.name)

    def offsets(self) -> dict[tuple[str, int], SharePartitionOffsets]:
        """By topic and partition, the first offset that is not done, and how many records are not. Raises KitError."""
        return self._groups.offsets(self.name)

    def in_flight(self, topic: str | Iterable[str] | None = None) -> list[InFlightRecord]:
        """The records that were delivered and are not done, by partition and offset, of all topics or of some.

        Those that are done behind one that is not are among them, by their `state`. Raises KitError.
        """
        topics = None if topic is None else set(texts("topic", topic))
        partitions = [TopicPartition(*name) for name in self.offsets() if topics is None or name[0] in topics]
        return [record for found in self._groups.in_flight(self.name, partitions) for record in records_in(found)]

    def expire_locks(self, topic: str | Iterable[str] | None = None) -> list[InFlightRecord]:
        """Move the brokers' clock past the end of every lock, of all topics or of some; the records that were locked.

        What else becomes due by then happens, too: hold the heartbeats of members whose sessions are to last. Raises
        KitError where no record is locked.
        """
        locked = [record for record in self.in_flight(topic) if record.state == ACQUIRED]
        if not locked:
            raise KitError(f"share group {self.name!r} holds no record")
        self._clock.advance((max(record.lock_left_ms or 0 for record in locked) + 1) / 1000)
        return locked

    def refuse_acknowledgements(
        self, code: CodeName = "INVALID_RECORD_STATE", *, times: int | None = 1, member_id: str | None = None
    ) -> GroupFault:
        """Refuse the next requests that acknowledge something, `times` of each kind: nothing of them is done.

        The records stay locked. Without `times` all are refused until it is undone. Raises ValueError.
        """
        if times is not None:
            whole("times", times, 1, COUNT_MAX)
        selected: dict[str, Any] = {"group": self.name, "member_id": member_id, "times": times}
        return GroupFault([self._on(api, **selected, when=_acknowledges).fail(code) for api in ACKNOWLEDGING])

    def assert_acknowledged(self, topic: str | Iterable[str] | None = None, *, timeout_s: float = 0) -> None:
        """Fail unless no record is left: each is acknowledged, rejected or given up; for `timeout_s` it may get there.

        Raises AssertionError with what is left, also where the group has read nothing, and KitError.
        """
        topics = None if topic is None else set(texts("topic", topic))
        left: dict[tuple[str, int], SharePartitionOffsets] = {}

        def is_done() -> bool | None:
            found = {name: row for name, row in self.offsets().items() if topics is None or name[0] in topics}
            left.clear()
            left.update({name: row for name, row in found.items() if row.start is None or row.lag != 0})
            return True if found and not left else None

        if is_done():
            return
        if timeout_s > 0:
            with suppress(NotInTime):
                self._groups.wait(is_done, f"share group {self.name!r} has nothing left to do", timeout_s)
                return
        raise AssertionError(f"share group {self.name!r} is not done: {_left_text(left)}")


def _acknowledges(body: Any) -> bool:
    return any(row.acknowledgement_batches for topic in body.topics for row in topic.partitions)


def _left_text(left: dict[tuple[str, int], SharePartitionOffsets]) -> str:
    """`orders:0 has 3 records left from 2 on, ...`."""
    if not left:
        return "it has read nothing"
    shown = [
        f"{topic}:{partition} has {'some' if row.lag is None else row.lag} records left from {row.start} on"
        for (topic, partition), row in list(left.items())[:LEFT_SHOWN_MAX]
    ]
    more = [f"and {len(left) - LEFT_SHOWN_MAX} more"] if len(left) > LEFT_SHOWN_MAX else []
    return ", ".join([*shown, *more])
