"""DescribeGroupProgress: committed offsets and how fast they advance. Sordini's own request, for `groups lag`."""

from __future__ import annotations

from typing import Any, Final

from sordini.broker.administration.lag.commit_watch import CommitWatch
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.rule import RuleDeps
from sordini.broker.security.rules.simple_rules import Both, OnEach
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_group_progress import (
    DescribeGroupProgressRequest,
    DescribeGroupProgressResponse,
    GroupProgressPartition,
    GroupProgressRow,
    GroupProgressTopic,
)
from sordini.replication.metadata_store.acl_model import AclOperation, ResourceType
from sordini.replication.ports import Clock
from sordini.system.named_tuple import NamedTuple

ROWS_PER_STEP: Final = 2


class SeenTopics(NamedTuple):
    """Offsets of topics that the peer may not describe are left out."""

    @property
    def meaning(self) -> str:
        return "offsets of topics that the peer may not DESCRIBE are left out"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield 1
        access, peer, former = deps.access.quietly, call.peer, call.amend

        def amend(message: DescribeGroupProgressResponse) -> Any:
            for group in message.groups:
                group.topics = [
                    topic for topic in group.topics if access.to_topic(peer, AclOperation.DESCRIBE, topic.topic)
                ]
            return message if former is None else former(message)

        call.amend = amend
        return None


PROGRESS_RULE: Final = Both(OnEach(ResourceType.GROUP, AclOperation.DESCRIBE, "groups", "groups"), SeenTopics())


class GroupProgressHandler:
    """Answers from the coordinator's offsets and from what was seen of them."""

    def __init__(self, groups: GroupCoordinator, commits: CommitWatch, clock: Clock) -> None:
        self._groups = groups
        self._commits = commits
        self._clock = clock

    def route(self) -> Route:
        return Route(ApiKey.DESCRIBE_GROUP_PROGRESS, self.describe, self.error_response, PROGRESS_RULE)

    def describe(self, call: Call) -> Work[DescribeGroupProgressResponse]:
        request: DescribeGroupProgressRequest = call.body
        response = DescribeGroupProgressResponse()
        for group_id in request.groups:
            yield 1
            row = GroupProgressRow(group_id=group_id)
            response.groups.append(row)
            try:
                offsets = self._groups.offsets(group_id)
            except BrokerError as error:
                row.error_code = error.code
                continue
            topics: dict[str, GroupProgressTopic] = {}
            now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
            for number, (name, committed) in enumerate(list(offsets.items())):
                if number % ROWS_PER_STEP == 0:
                    yield 1
                topic = topics.get(name.topic)
                if topic is None:
                    topic = topics[name.topic] = GroupProgressTopic(topic=name.topic)
                advance = self._commits.advance(group_id, name, committed.offset, monotonic_ms)
                topic.partitions.append(
                    GroupProgressPartition(
                        partition_index=name.partition,
                        committed_offset=committed.offset,
                        advanced=advance.offsets,
                        window_ms=advance.window_ms,
                        commit_age_ms=max(0, now_ms - committed.committed_ms),
                    )
                )
            row.topics = list(topics.values())
        return response

    @staticmethod
    def error_response(request: DescribeGroupProgressRequest, code: ErrorCode) -> DescribeGroupProgressResponse:
        return DescribeGroupProgressResponse(
            groups=[GroupProgressRow(group_id=group_id, error_code=code) for group_id in request.groups]
        )
