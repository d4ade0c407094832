"""Finding a coordinator, committing offsets and reading them, as members and simple consumers do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sordini.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.client import ClientNetwork, Connection
from tests.sim.group_client import TIMEOUT_S, TryAgain
from tests.sim.group_history import Commit, GroupHistory, Missing, Outcome, ReportedState

LATER = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
REFUSED = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
"""Errors returned before anything is written."""


class Who(NamedTuple):
    """Who commits."""

    member_id: str = ""
    generation_id: int = -1
    instance_id: str | None = None


NO_MEMBER = Who()


class OffsetsClient:
    """One client's view of one group's offsets."""

    def __init__(self, name: str, network: ClientNetwork, history: GroupHistory, group_id: str) -> None:
        self._name = name
        self._loop = network.loop
        self._trace = network.trace
        self._history = history
        self._group_id = group_id
        self._count = 0

    async def find_coordinator(self, connection: Connection, version: int, expected: Address) -> None:
        """Request the coordinator; there is one broker, which must be named. Raises TryAgain when there is none yet."""
        request = FindCoordinatorRequest(key=self._group_id, coordinator_keys=[self._group_id])
        async with asyncio.timeout(TIMEOUT_S):
            answer = await connection.request(ApiKey.FIND_COORDINATOR, version, request)
        found = answer.coordinators[0] if version >= 4 else answer
        if found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            raise TryAgain("no coordinator")
        if found.error_code or (found.host, found.port) != expected:
            self._strange("FindCoordinator", found.error_code)

    async def commit(
        self,
        connection: Connection,
        version: int,
        who: Who,
        partitions: Sequence[TopicPartition],
        offsets: Mapping[TopicPartition, int] | None = None,
    ) -> ErrorCode:
        """Commit an offset for each, one that was never there unless it is given; the first error that matters."""
        began = self._loop.time()
        notes = {partition: self._note(offsets and offsets[partition]) for partition in partitions}
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await connection.request(ApiKey.OFFSET_COMMIT, version, self._commit(who, notes))
        except (OSError, TimeoutError):
            self._record(who, notes, began, {})
            raise
        codes = {
            TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
            for topic in answer.topics
            for partition in topic.partitions
        }
        self._record(who, notes, began, codes)
        if codes.keys() != notes.keys():
            self._history.strange.append(f"{self._name} committed {len(notes)} partitions, and {len(codes)} answer")
        errors = [code for code in codes.values() if code]
        for code in errors:
            if code not in (*REFUSED, *LATER, ErrorCode.REQUEST_TIMED_OUT):
                self._strange("OffsetCommit", code)
        if ErrorCode.GROUP_ID_NOT_FOUND in errors:
            self._history.missing.append(Missing(self._group_id, self._name, self._loop.time()))
        if any(code in LATER for code in errors):
            raise TryAgain(errors[0].name)
        return errors[0] if errors else ErrorCode.NONE

    async def fetch(
        self,
        connection: Connection,
        version: int,
        partitions: Sequence[TopicPartition],
        who: Who | None = None,
        reader: Who = NO_MEMBER,
    ) -> dict[TopicPartition, int]:
        """Fetch committed offsets; of all partitions where none are named. -1: none is committed.

        `who` is a member of the consumer protocol, from version 9 on; nothing is returned if its epoch is stale.
        `reader` is the member that goes on from there, whether it says so or not.
        """
        began = self._loop.time()
        async with asyncio.timeout(TIMEOUT_S):
            answer = await connection.request(ApiKey.OFFSET_FETCH, version, self._fetch(version, partitions, who))
        group = answer.groups[0] if version >= 8 else answer
        code = ErrorCode(group.error_code)
        if code in LATER:
            raise TryAgain(code.name)
        if who is not None and code in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            return {}
        if code:
            self._strange("OffsetFetch", code)
        found: dict[TopicPartition, int] = {}
        for topic in group.topics:
            for partition in topic.partitions:
                if self._reported(topic.name, partition, (began, connection, reader, who is not None)):
                    found[TopicPartition(topic.name, partition.partition_index)] = partition.committed_offset
        return found

    def _reported(self, topic: str, partition: Any, asked: tuple[float, Connection, Who, bool]) -> bool:
        began, connection, reader, is_checked = asked
        if partition.error_code:
            if partition.error_code not in LATER:
                self._strange("OffsetFetch", partition.error_code)
            return False
        is_there = partition.committed_offset >= 0
        reported = ReportedState(
            self._group_id,
            TopicPartition(topic, partition.partition_index),
            partition.metadata if is_there else None,
            partition.committed_offset,
            began,
            self._loop.time(),
            reader.member_id,
            connection.socket.wire.peer_address,
            is_checked,
        )
        self._trace.note(self._name, "told", *reported[1:4])
        self._history.reported.append(reported)
        return True

    def _note(self, offset: int | None) -> str:
        self._count += 1
        return f"{self._name}-{self._count}@{self._count * 10 if offset is None else offset}"

    def _commit(self, who: Who, notes: dict[TopicPartition, str]) -> OffsetCommitRequest:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, number), note in notes.items():
            of_topic = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic, partitions=[]))
            offset = int(note.rpartition("@")[2])
            of_topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=number, committed_offset=offset, committed_metadata=note, committed_leader_epoch=-1
                )
            )
        return OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=who.generation_id,
            member_id=who.member_id,
            group_instance_id=who.instance_id,
            topics=list(topics.values()),
        )

    def _fetch(self, version: int, partitions: Sequence[TopicPartition], who: Who | None) -> OffsetFetchRequest:
        numbers: dict[str, list[int]] = {}
        for topic, number in partitions:
            numbers.setdefault(topic, []).append(number)
        if version >= 8:
            topics = [OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in numbers.items()]
            group = OffsetFetchRequestGroup(group_id=self._group_id, topics=topics or None)
            if who is not None:
                group.member_id, group.member_epoch = who.member_id, who.generation_id
            return OffsetFetchRequest(groups=[group])
        old = [OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in numbers.items()]
        return OffsetFetchRequest(group_id=self._group_id, topics=old or None)

    def _record(
        self, who: Who, notes: dict[TopicPartition, str], began: float, codes: dict[TopicPartition, ErrorCode]
    ) -> None:
        now = self._loop.time()
        for partition, note in notes.items():
            code = codes.get(partition)
            outcome: Outcome = "ok" if code == ErrorCode.NONE else "no" if code in REFUSED else "info"
            self._trace.note(self._name, "commit", partition, note, outcome)
            self._history.commits.append(
                Commit(self._group_id, partition, note, began, now, outcome, who.member_id, who.generation_id)
            )

    def _strange(self, what: str, code: int) -> None:
        text = f"{self._name}'s {what} was answered with {ErrorCode(code).name} at {self._loop.time():.3f}"
        self._history.strange.append(text)
