"""The offsets of share groups, for administrators: described with their lag, set, and deleted (KIP-932).

A group's offsets are the start offsets that the share coordinator has stored. Setting one begins a new state epoch, of
which the group epoch is the number: leaders that have the partition in memory begin again. Offsets are set and deleted
of groups without members only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from sordini.broker.groups.consumer.machine.events import Refusal
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.share.end_offsets import EndOffset, OnEnds
from sordini.broker.groups.share.machine.events import DeleteOffsets, OffsetsDeleted, SetOffsets, StatesAnswer
from sordini.broker.groups.share.machine.events import StatesInitialized as Initialized
from sordini.broker.groups.share_rules import AlterShareOffsetsRule, DeleteShareOffsetsRule, DescribeShareOffsetsRule
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.responder import Responder
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.share_state.ports import StateSummary
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from sordini.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from sordini.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from sordini.protocol.types import Offset, TopicId, TopicPartition

UNKNOWN_TOPIC_TEXT: Final = "This server does not host this topic-partition."
NO_GROUP_ID: Final = "The group id is invalid."
NOTHING_TO_DELETE: Final = "There is no offset information to delete."
NO_OFFSET: Final = -1
NO_LAG: Final = -1
LAG_MAX: Final = 2**63 - 1
NO_STATE: Final = StateSummary(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""Of a partition that does not exist."""
PARTITIONS_PER_STEP: Final = 10

SharePair = tuple[TopicId, int]


class EndOffsets(Protocol):
    """Reads the ends of partitions, wherever their leaders are."""

    def read(self, partitions: Sequence[TopicPartition], on_done: OnEnds) -> None:
        """`on_done` is called once, with every partition."""


class ShareOffsetsHandler:
    """Serves administrators of share groups."""

    def __init__(self, groups: GroupCoordinator, metadata: MetadataCache, end_offsets: EndOffsets) -> None:
        self._groups = groups
        self._metadata = metadata
        self._end_offsets = end_offsets

    def routes(self) -> list[Route]:
        return [
            Route(
                ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
                self.describe,
                self.describe_error_response,
                DescribeShareOffsetsRule(),
            ),
            Route(ApiKey.ALTER_SHARE_GROUP_OFFSETS, self.alter, self.alter_error_response, AlterShareOffsetsRule()),
            Route(ApiKey.DELETE_SHARE_GROUP_OFFSETS, self.delete, self.delete_error_response, DeleteShareOffsetsRule()),
        ]

    # Description.

    def describe(self, call: Call) -> Work[DescribeShareGroupOffsetsResponse | DelayedResponse]:
        request: DescribeShareGroupOffsetsRequest = call.body
        responder: Responder[DescribeShareGroupOffsetsResponse] = Responder(call)
        response = DescribeShareGroupOffsetsResponse(
            groups=[DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id) for group in request.groups]
        )
        left = len(request.groups)

        def described() -> None:
            nonlocal left
            left -= 1
            if not left:
                responder.answer(response)

        for group, answered in zip(request.groups, response.groups, strict=True):
            yield from self._describe_group(group, answered, described)
        return responder.result() if request.groups else response

    def _describe_group(
        self,
        group: DescribeShareGroupOffsetsRequestGroup,
        answered: DescribeShareGroupOffsetsResponseGroup,
        on_done: Callable[[], None],
    ) -> Work[None]:
        """Fill in a group's topics, now or later."""
        try:
            if group.topics is None:
                named = self._initialized(group.group_id)
            else:
                named = {topic.topic_name: list(topic.partitions) for topic in group.topics}
        except BrokerError as error:
            answered.error_code, answered.error_message = error.code, str(error)
            on_done()
            return
        pairs: list[SharePair] = []
        ids: dict[str, TopicId] = {}
        for name, indexes in named.items():
            yield 1 + len(indexes) // PARTITIONS_PER_STEP
            known = self._metadata.topics.get(name)
            if known is not None:
                ids[name] = known.topic_id
                pairs += [(known.topic_id, index) for index in indexes if index in known.partitions]

        def summarized(summaries: Mapping[SharePair, StateSummary]) -> None:
            measured = [
                TopicPartition(name, index)
                for name, topic_id in ids.items()
                for index in named[name]
                if _has_lag(summaries.get((topic_id, index), NO_STATE))
            ]
            self._end_offsets.read(measured, partial(finished, summaries))

        def finished(summaries: Mapping[SharePair, StateSummary], ends: Mapping[TopicPartition, EndOffset]) -> None:
            answered.topics = [
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=topic_id,
                    partitions=[
                        _described(
                            index,
                            summaries.get((topic_id, index), NO_STATE),
                            ends.get(TopicPartition(name, index)),
                        )
                        for index in named[name]
                    ],
                )
                for name, topic_id in ids.items()
            ]
            answered.topics += [_unknown(name, indexes) for name, indexes in named.items() if name not in ids]
            on_done()

        if pairs:
            self._groups.states_of_shares.summarize(group.group_id, pairs, summarized)
        else:
            finished({}, {})

    def _initialized(self, group_id: str) -> dict[str, list[int]]:
        """The partitions that a group reads, of topics that exist. Raises BrokerError."""
        group = self._groups.share_group(group_id)
        if group is None or group.states is None:
            return {}
        names = ((self._metadata.name_of(topic_id), topic) for topic_id, topic in group.states.initialized.items())
        return {name: sorted(topic.partitions) for name, topic in names if name is not None}

    # Start offsets that are set.

    def alter(self, call: Call) -> Work[AlterShareGroupOffsetsResponse | DelayedResponse]:
        request: AlterShareGroupOffsetsRequest = call.body
        if not request.group_id:
            return AlterShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID, error_message=NO_GROUP_ID)
        response = AlterShareGroupOffsetsResponse()
        offsets: dict[TopicId, dict[int, Offset]] = {}
        for topic in request.topics:
            yield 1 + len(topic.partitions) // PARTITIONS_PER_STEP
            response.responses.append(self._altered(topic, offsets))
        responder: Responder[AlterShareGroupOffsetsResponse] = Responder(call)

        def begun(answer: StatesAnswer | Refusal) -> None:
            if isinstance(answer, Refusal):
                responder.answer(
                    AlterShareGroupOffsetsResponse(error_code=answer.code, error_message=answer.message or None)
                )
                return
            starts = {(topic, index): offsets[topic][index] for topic in answer.partitions for index in offsets[topic]}
            self._groups.states_of_shares.initialize(
                request.group_id, answer.state_epoch, starts, partial(stored, answer)
            )

        def stored(answer: StatesAnswer, errors: Mapping[SharePair, ErrorCode]) -> None:
            if any(errors.values()) or not errors:
                _add_errors(response, errors)
                responder.answer(response)
            else:
                self._conclude(request.group_id, Initialized(answer.partitions), concluded)

        def concluded(error: ErrorCode) -> None:
            responder.answer(response if not error else AlterShareGroupOffsetsResponse(error_code=error))

        self._groups.submit_to_share_group(request.group_id, SetOffsets(offsets), begun)
        return responder.result()

    def _altered(
        self, topic: AlterShareGroupOffsetsRequestTopic, offsets: dict[TopicId, dict[int, Offset]]
    ) -> AlterShareGroupOffsetsResponseTopic:
        """The row of one topic; adds its offsets to those that are to be set."""
        known = self._metadata.topics.get(topic.topic_name)
        row = AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
        if known is not None:
            row.topic_id = known.topic_id
        for partition in topic.partitions:
            answered = AlterShareGroupOffsetsResponsePartition(partition_index=partition.partition_index)
            if known is None or not 0 <= partition.partition_index < len(known.partitions):
                answered.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answered.error_message = UNKNOWN_TOPIC_TEXT
            else:
                starts = offsets.setdefault(known.topic_id, {})
                starts[partition.partition_index] = Offset(partition.start_offset)
            row.partitions.append(answered)
        return row

    # Offsets that are deleted.

    def delete(self, call: Call) -> Work[DeleteShareGroupOffsetsResponse | DelayedResponse]:
        request: DeleteShareGroupOffsetsRequest = call.body
        if not request.group_id:
            return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID, error_message=NO_GROUP_ID)
        names: dict[TopicId, str] = {}
        refused: list[DeleteShareGroupOffsetsResponseTopic] = []
        for topic in request.topics:
            yield 1
            known = self._metadata.topics.get(topic.topic_name)
            if known is None:
                refused.append(_not_deleted(topic.topic_name, UNKNOWN_TOPIC_TEXT))
            else:
                names[known.topic_id] = topic.topic_name
        responder: Responder[DeleteShareGroupOffsetsResponse] = Responder(call)

        def begun(answer: StatesAnswer | Refusal) -> None:
            if isinstance(answer, Refusal):
                responder.answer(
                    DeleteShareGroupOffsetsResponse(error_code=answer.code, error_message=answer.message or None)
                )
                return
            rows = [_not_deleted(name, NOTHING_TO_DELETE) for i, name in names.items() if i not in answer.partitions]
            self._groups.states_of_shares.delete(
                request.group_id, answer.partitions, partial(deleted, answer, [*refused, *rows])
            )

        def deleted(
            answer: StatesAnswer,
            rows: list[DeleteShareGroupOffsetsResponseTopic],
            errors: Mapping[SharePair, ErrorCode],
        ) -> None:
            failed = {topic_id: code for (topic_id, _), code in errors.items() if code}
            done = frozenset(answer.partitions.keys() - failed.keys())
            found = [
                DeleteShareGroupOffsetsResponseTopic(
                    topic_name=names[topic_id], topic_id=topic_id, error_code=failed.get(topic_id, ErrorCode.NONE)
                )
                for topic_id in (*done, *failed)
            ]
            response = DeleteShareGroupOffsetsResponse(responses=[*found, *rows])
            if not done:
                responder.answer(response)
                return

            def concluded(error: ErrorCode) -> None:
                responder.answer(response if not error else DeleteShareGroupOffsetsResponse(error_code=error))

            self._conclude(request.group_id, OffsetsDeleted(done), concluded)

        self._groups.submit_to_share_group(request.group_id, DeleteOffsets(tuple(names)), begun)
        return responder.result()

    def _conclude(
        self, group_id: str, event: Initialized | OffsetsDeleted, on_done: Callable[[ErrorCode], None]
    ) -> None:
        """Tell the group what became of its states, once the share coordinator has answered. Raises nothing.

        The group may have another coordinator by then, which does the same with what it has loaded.
        """
        try:
            self._groups.submit_to_share_group(group_id, event, lambda _: on_done(ErrorCode.NONE))
        except BrokerError as error:
            on_done(error.code)

    # Errors.

    @staticmethod
    def describe_error_response(
        request: DescribeShareGroupOffsetsRequest, code: ErrorCode
    ) -> DescribeShareGroupOffsetsResponse:
        groups = [
            DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups
        ]
        return DescribeShareGroupOffsetsResponse(groups=groups)

    @staticmethod
    def alter_error_response(
        _request: AlterShareGroupOffsetsRequest, code: ErrorCode
    ) -> AlterShareGroupOffsetsResponse:
        return AlterShareGroupOffsetsResponse(error_code=code)

    @staticmethod
    def delete_error_response(
        _request: DeleteShareGroupOffsetsRequest, code: ErrorCode
    ) -> DeleteShareGroupOffsetsResponse:
        return DeleteShareGroupOffsetsResponse(error_code=code)


def _has_lag(summary: StateSummary) -> bool:
    return not summary.error and summary.start is not None and summary.done is not None


def _described(index: int, summary: StateSummary, end: EndOffset | None) -> DescribeShareGroupOffsetsResponsePartition:
    row = DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NO_OFFSET, lag=NO_LAG)
    if summary.error:
        return row
    if end is not None and end.error:
        return DescribeShareGroupOffsetsResponsePartition(partition_index=index, error_code=end.error)
    row.leader_epoch = summary.leader_epoch
    if summary.start is not None:
        row.start_offset = summary.start
        if end is not None and end.offset is not None and summary.done is not None:
            # What brokers have stored may be any numbers, and a lag is one of 64 bits.
            row.lag = max(-LAG_MAX, min(end.offset - summary.start - summary.done, LAG_MAX))
    return row


def _unknown(name: str, indexes: Sequence[int]) -> DescribeShareGroupOffsetsResponseTopic:
    rows = [DescribeShareGroupOffsetsResponsePartition(partition_index=i, start_offset=NO_OFFSET) for i in indexes]
    return DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=rows)


def _add_errors(response: AlterShareGroupOffsetsResponse, errors: Mapping[SharePair, ErrorCode]) -> None:
    for topic in response.responses:
        for row in topic.partitions:
            code = errors.get((TopicId(topic.topic_id), row.partition_index), ErrorCode.NONE)
            if code and not row.error_code:
                row.error_code = code


def _not_deleted(name: str, reason: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=reason
    )
