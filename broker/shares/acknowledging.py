"""What a request acknowledges, partition by partition: checked, carried out, and the codes that the response has.

A request of many acknowledgements is checked in slices; those of one partition are in force together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.shares.led_share_partition import LedSharePartition, Phase
from sordini.broker.shares.machine.acknowledgement import Acknowledgement
from sordini.broker.shares.machine.acknowledgement_rows import checked
from sordini.broker.shares.machine.record_states import AckType
from sordini.broker.shares.machine.sessions import SessionKey, Target
from sordini.broker.shares.share_partitions import SharePartitions
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.common import AcknowledgementBatch
from sordini.protocol.messages.share_acknowledge import AcknowledgeTopic
from sordini.protocol.messages.share_fetch import FetchTopic
from sordini.protocol.types import TopicId

BATCHES_AT_ONCE: Final = 200
"""Acknowledgements that are checked between two steps."""


Refused = Mapping[TopicId, ErrorCode]
"""Topics that a request may not read, by what its rule of authorization has found, and why."""
AcknowledgedTopics = Sequence[FetchTopic] | Sequence[AcknowledgeTopic]


def check_allowed(target: Target, refused: Refused) -> None:
    """Raise BrokerError for a partition of a topic that is refused."""
    code = refused.get(target.topic_id)
    if code is not None:
        raise BrokerError(code, f"{target} may not be read")


class Acknowledging:
    """The acknowledgements of one request."""

    def __init__(self, partitions: SharePartitions, key: SessionKey, *, is_renewal: bool, refused: Refused) -> None:
        """`is_renewal`: the request renews locks; `refused`: topics that it may not read."""
        self._partitions = partitions
        self._key = key
        self._is_renewal = is_renewal
        self._refused = refused
        self.codes: dict[Target, ErrorCode] = {}
        """Of the partitions that were acknowledged; complete when `on_done` has been called for each."""

    def begin(self, topics: AcknowledgedTopics, begun: Callable[[], Callable[[], None]]) -> Work[None]:
        """Carry out all of them. `begun` is called before each and returns what is called when it is done."""
        for topic in topics:
            for row in topic.partitions:
                yield 1
                if not row.acknowledgement_batches:
                    continue
                target, on_done = Target(TopicId(topic.topic_id), row.partition_index), begun()
                self.codes[target] = ErrorCode.NONE
                try:
                    shared = self._required(target)
                    said = yield from self._checked(shared, row.acknowledgement_batches)
                except BrokerError as error:
                    self.codes[target] = error.code
                    on_done()
                else:
                    shared.acknowledge(self._key.member, said, self._noting(target, on_done))

    def _noting(self, target: Target, on_done: Callable[[], None]) -> Callable[[ErrorCode], None]:
        def note(code: ErrorCode) -> None:
            self.codes[target] = code
            on_done()

        return note

    def _required(self, target: Target) -> LedSharePartition:
        check_allowed(target, self._refused)
        if self._partitions.leaders.metadata.name_of(target.topic_id) is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic of that id")
        return self._partitions.require(self._key.group_id, target)

    def _checked(self, shared: LedSharePartition, batches: list[AcknowledgementBatch]) -> Work[list[Acknowledgement]]:
        """Without those of records that are done; raises BrokerError."""
        start = shared.machine.start if shared.phase is Phase.LOADED else 0
        found: list[Acknowledgement] = []
        is_renewing, former = False, -1
        for first in range(0, len(batches), BATCHES_AT_ONCE):
            if first:
                yield BATCHES_AT_ONCE
            said, former = checked(batches[first : first + BATCHES_AT_ONCE], former, renews=self._is_renewal)
            is_renewing |= self._is_renewal and any(AckType.RENEW in one.types for one in said)
            found += [one for one in said if one.end > start]
        if is_renewing and not shared.settings.renews:
            raise BrokerError(ErrorCode.INVALID_RECORD_STATE, f"{self._key.group_id} renews no locks")
        return found
