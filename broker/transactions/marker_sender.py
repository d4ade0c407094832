"""Sends the markers of decided transactions to the leaders of their partitions, until every partition has its marker.

    end --> by leader --> led here: appended, as for other coordinators (`LocalMarkers`)
                          other broker: WriteTxnMarkers (`RemoteMarkers`)
                          none now, or refused: again after a pause, by the leader of that time
                          not in the metadata: nothing to do once the coordination store confirms that it is deleted

What is decided, and when it is complete: `machine/completion.py`. What a new coordinator finds undone it takes up again
by `machine/machine.py` (`resume`).

A marker may be written twice, which changes nothing. The pauses of all transactions share one timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final

from sordini.broker.coordinators.deadline_timer import DeadlineTimer
from sordini.broker.coordinators.ports import Ports
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.transactions.local_markers import LocalMarkers
from sordini.broker.transactions.remote_markers import RemoteMarkers
from sordini.broker.transactions.transaction_end import MarkerVerdict, TransactionEnd, verdict_of
from sordini.protocol.errors import BrokerError, ErrorCode, error_name
from sordini.protocol.types import BrokerId, TopicPartition

PARTITIONS_AT_ONCE: Final = 40
"""Markers that are appended before the loop serves other requests: about a millisecond."""

PartitionCount = Callable[[str], Awaitable[int]]
"""The number of a topic's partitions in the coordination store. Raises BrokerError, UNKNOWN_TOPIC_OR_PARTITION for a
topic that is not there."""


class MarkerSender:
    """The markers of all transactions that this broker coordinates."""

    def __init__(
        self,
        metadata: MetadataCache,
        local: LocalMarkers,
        remote: RemoteMarkers,
        count_partitions: PartitionCount,
        ports: Ports,
    ) -> None:
        self._metadata = metadata
        self._local = local
        self._remote = remote
        self._count_partitions = count_partitions
        self._ports = ports
        self._timer: DeadlineTimer[int] = DeadlineTimer(ports.clock, ports.call_later, self._retry)
        self._paused: dict[int, tuple[TransactionEnd, list[TopicPartition]]] = {}
        """Partitions to be tried again, by the number of the pause."""
        self._last_number = 0
        self.run_soon: Callable[[Callable[[], object]], object] = _at_once
        """Runs what sends the markers, when the response to the producer has left; set by the server."""
        remote.on_codes = self._on_codes

    def send(self, end: TransactionEnd) -> None:
        """Send the markers; the end's `on_done` is called when all are written, maybe before this returns."""
        # In an order that does not differ from process to process, as that of a set does.
        self.run_soon(partial(self._send, end, sorted(end.remaining)))

    def close(self) -> None:
        """Close the connections to other brokers."""
        self._remote.close()

    def _send(self, end: TransactionEnd, partitions: list[TopicPartition]) -> None:
        if len(partitions) <= PARTITIONS_AT_ONCE:
            self._send_now(end, partitions)
        else:
            self._ports.spawn(self._send_in_slices(end, partitions))

    async def _send_in_slices(self, end: TransactionEnd, partitions: list[TopicPartition]) -> None:
        for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
            self._send_now(end, partitions[start : start + PARTITIONS_AT_ONCE])
            await asyncio.sleep(0)

    def _send_now(self, end: TransactionEnd, partitions: Iterable[TopicPartition]) -> None:
        if end.is_cancelled:
            return
        here: list[TopicPartition] = []
        elsewhere: dict[BrokerId, list[TopicPartition]] = {}
        leaderless: list[TopicPartition] = []
        unknown: list[TopicPartition] = []
        for partition in partitions:
            if self._local.leads(partition):
                here.append(partition)
            elif not self._metadata.exists(*partition):
                unknown.append(partition)
            else:
                leader = self._metadata.topics[partition.topic].partitions[partition.partition].leader
                is_reachable = leader in self._metadata.brokers and leader != self._remote.this_broker
                (elsewhere.setdefault(leader, []) if is_reachable else leaderless).append(partition)
        if leaderless:
            self._pause(end, leaderless)
        if unknown:
            self._ports.spawn(self._drop_deleted(end, unknown))
        for leader, led in elsewhere.items():
            self._remote.add(leader, end, led)
        if here:
            self._local.append(end, here, lambda codes: self._on_codes(end, codes))

    def _on_codes(self, end: TransactionEnd, codes: Mapping[TopicPartition, int]) -> None:
        """The answers of one leader."""
        if end.is_cancelled:
            return
        by_verdict: dict[MarkerVerdict, list[TopicPartition]] = {}
        for partition, code in codes.items():
            by_verdict.setdefault(verdict_of(code), []).append(partition)
        fenced = by_verdict.get(MarkerVerdict.STOP)
        if fenced is not None:
            name, error = str(fenced[0]), error_name(codes[fenced[0]])
            self._ports.log.warning(
                "markers refused", transactional_id=end.transactional_id, partition=name, error=error
            )
            end.is_cancelled = True
            return
        if MarkerVerdict.RETRY in by_verdict:
            self._pause(end, by_verdict[MarkerVerdict.RETRY])
        end.done(by_verdict.get(MarkerVerdict.DONE, ()))

    async def _drop_deleted(self, end: TransactionEnd, partitions: Iterable[TopicPartition]) -> None:
        """The metadata of a broker that starts may be incomplete, so only the store knows what is deleted."""
        by_topic: dict[str, list[TopicPartition]] = {}
        for partition in partitions:
            by_topic.setdefault(partition.topic, []).append(partition)
        for topic, those in by_topic.items():
            count = await self._count(topic)
            existing = [one for one in those if count is None or one.partition < count]
            if existing:
                self._pause(end, existing)
            end.done(set(those) - set(existing))

    async def _count(self, topic: str) -> int | None:
        """The number of a topic's partitions, 0 for a deleted one; None when the store does not answer."""
        try:
            return await self._count_partitions(topic)
        except BrokerError as error:
            return 0 if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None

    def _pause(self, end: TransactionEnd, partitions: Iterable[TopicPartition]) -> None:
        if end.is_cancelled:
            return
        self._last_number += 1
        self._paused[self._last_number] = end, list(partitions)
        self._timer.schedule(self._last_number, self._ports.clock.monotonic_ms() + end.next_pause_ms())

    def _retry(self, number: int, _late_ms: int) -> None:
        end, partitions = self._paused.pop(number)
        self._send(end, partitions)


def _at_once(run: Callable[[], object]) -> None:
    """Without a server there are no responses that could leave first."""
    run()
