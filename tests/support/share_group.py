"""A share group whose members are frames over sockets, with this project's own codecs: the same to every broker."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.common import AcknowledgementBatch
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sordini.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from sordini.protocol.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from sordini.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.wire_client import PATIENCE_S, Client

HEARTBEATS: Final = 1
FETCHES: Final = 2
GROUP: Final = 32
OPEN, CLOSE = 0, -1
LEAVE: Final = -1
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
NOT_READY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
FETCHED_BYTES_MAX: Final = 1 << 20
PAUSE_S: Final = 0.05


class NotCoordinated(Exception):
    """A group or a topic is not ready yet."""


class Acquired(NamedTuple):
    """Records that a member holds; both offsets are inclusive."""

    first: int
    last: int
    deliveries: int


Acknowledged = tuple[int, int, int]
"""First and last offset, inclusive, and the type."""


class ShareAnswer(NamedTuple):
    """What became of acknowledgements, and what was acquired."""

    code: int
    """Of the partition's acknowledgements."""
    acquired: list[Acquired]
    records: bytes
    lock_ms: int


class ShareTopic(NamedTuple):
    """One partition of a topic, and its group."""

    group: str
    name: str
    topic_id: bytes
    partition: int = 0


def prepare(client: Client, group: str, topic: str, settings: Mapping[str, object]) -> ShareTopic:
    """Create the topic of one partition and set up the group; both are ready."""
    client.create(topic)
    configs = [AlterableConfig(name=key, config_operation=0, value=str(value)) for key, value in settings.items()]
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=configs)
    answer = client.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    )
    assert answer.responses[0].error_code == 0, answer
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return find_topic(client, group, topic)
        except NotCoordinated:
            assert time.monotonic() < deadline_s, f"{group} has no coordinator, or {topic} no leader"
            time.sleep(PAUSE_S)


def find_topic(client: Client, group: str, topic: str) -> ShareTopic:
    """The one partition of a topic, and its group. Raises NotCoordinated."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    code = client.ask(ApiKey.FIND_COORDINATOR, 4, request).coordinators[0].error_code
    (row,) = client.metadata(topic).topics
    if code or row.error_code or not row.partitions or row.partitions[0].leader_id < 0:
        raise NotCoordinated(f"{group}: {code}, {topic}: {row.error_code}")
    return ShareTopic(group, topic, row.topic_id)


class ShareMember:
    """One member with its share session; heartbeats are its owner's to send."""

    def __init__(self, client: Client, topic: ShareTopic) -> None:
        """`client` is a connection of its own, to the coordinator and leader."""
        self.member_id = str(uuid4())
        self.client = client
        self._topic = topic
        self._epoch = 0
        self._session_epoch = OPEN
        self.is_assigned = False

    def join(self, patience_s: float = PATIENCE_S) -> None:
        """Heartbeats until the partition is assigned. Raises AssertionError."""
        deadline_s = time.monotonic() + patience_s
        while not self.beat():
            assert time.monotonic() < deadline_s, f"{self._topic.group} assigns nothing"
            time.sleep(PAUSE_S)

    def beat(self) -> bool:
        """One heartbeat, of which the first joins; whether the partition is assigned."""
        names = [self._topic.name] if self._epoch == 0 else None
        answer = self._beat(self._epoch, names)
        if answer.error_code in NOT_READY:
            return False
        assert answer.error_code == 0, answer
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.is_assigned = any(row.topic_id == self._topic.topic_id for row in answer.assignment.topic_partitions)
        return self.is_assigned

    def leave(self) -> None:
        self._beat(LEAVE, None)

    def _beat(self, epoch: int, names: list[str] | None) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id=self._topic.group, member_id=self.member_id, member_epoch=epoch, subscribed_topic_names=names
        )
        return self.client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, HEARTBEATS, request)

    def fetch(
        self,
        records_max: int = 500,
        *,
        wait_ms: int = 500,
        said: Iterable[Acknowledged] = (),
        is_by_records: bool = False,
        is_renewing: bool = False,
    ) -> ShareAnswer:
        """Acknowledge and acquire. Raises AssertionError for an error of the request, not of acknowledgements."""
        request = self.fetch_request(
            records_max, wait_ms=wait_ms, said=said, is_by_records=is_by_records, is_renewing=is_renewing
        )
        return self.taken(self.client.ask(ApiKey.SHARE_FETCH, FETCHES, request))

    def fetch_request(
        self,
        records_max: int,
        *,
        wait_ms: int,
        said: Iterable[Acknowledged] = (),
        is_by_records: bool = False,
        is_renewing: bool = False,
    ) -> ShareFetchRequest:
        """The next request of the session; its answer is for `taken`."""
        row = FetchPartition(partition_index=self._topic.partition, acknowledgement_batches=_batches(said))
        return ShareFetchRequest(
            group_id=self._topic.group,
            member_id=self.member_id,
            share_session_epoch=self._session_epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCHED_BYTES_MAX,
            max_records=0 if is_renewing else records_max,
            batch_size=records_max,
            share_acquire_mode=int(is_by_records),
            is_renew_ack=is_renewing,
            topics=[FetchTopic(topic_id=self._topic.topic_id, partitions=[row])],
        )

    def taken(self, answer: ShareFetchResponse) -> ShareAnswer:
        """What an answer says of the partition; the session goes on."""
        assert answer.error_code == 0, answer
        self._session_epoch += 1
        acquired: list[Acquired] = []
        code, records = 0, b""
        for topic in answer.responses:
            for row in topic.partitions:
                assert row.error_code in (0, *NOT_READY), row
                code = code or row.acknowledge_error_code
                acquired += [
                    Acquired(one.first_offset, one.last_offset, one.delivery_count) for one in row.acquired_records
                ]
                records = bytes(row.records or b"")  # type: ignore[call-overload]
        return ShareAnswer(code, acquired, records, answer.acquisition_lock_timeout_ms)

    def acknowledge(self, said: Iterable[Acknowledged], *, is_renewing: bool = False) -> int:
        """The error code of the partition's acknowledgements. Raises AssertionError for one of the request."""
        row = AcknowledgePartition(partition_index=self._topic.partition, acknowledgement_batches=_batches(said))
        answer: ShareAcknowledgeResponse = self.client.ask(
            ApiKey.SHARE_ACKNOWLEDGE,
            FETCHES,
            ShareAcknowledgeRequest(
                group_id=self._topic.group,
                member_id=self.member_id,
                share_session_epoch=self._session_epoch,
                is_renew_ack=is_renewing,
                topics=[AcknowledgeTopic(topic_id=self._topic.topic_id, partitions=[row])],
            ),
        )
        assert answer.error_code == 0, answer
        self._session_epoch += 1
        code: int = answer.responses[0].partitions[0].error_code
        return code

    def close_session(self) -> None:
        """Give back what is held."""
        self._session_epoch = CLOSE
        request = self.fetch_request(0, wait_ms=0)
        self.client.ask(ApiKey.SHARE_FETCH, FETCHES, ShareFetchRequest(**{**_fields(request), "topics": []}))
        self._session_epoch = OPEN


def accepted(acquired: Sequence[Acquired]) -> list[Acknowledged]:
    """All of it acknowledged."""
    return [(one.first, one.last, ACCEPT) for one in acquired]


def _batches(said: Iterable[Acknowledged]) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
        for first, last, kind in said
    ]


def _fields(request: ShareFetchRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in ("group_id", "member_id", "share_session_epoch", "max_wait_ms")}
