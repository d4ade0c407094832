"""A member of a group that does what a test says, one request after the other: Sordini's own client, without a loop."""

from __future__ import annotations

from typing import Any, Self

from sordini.client.addresses import Address
from sordini.client.blocking_link import BlockingLink
from sordini.protocol.codecs import encode
from sordini.protocol.consumer_subscription import CONSUMER_PROTOCOL, ConsumerSubscription
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sordini.protocol.messages.heartbeat import HeartbeatRequest
from sordini.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from sordini.protocol.messages.sync_group import SyncGroupRequest


class BareMember:
    """Of a group on one broker, which coordinates it. `errors` are those of its heartbeats, "NONE" without one."""

    def __init__(self, bootstrap: str, group: str, topic: str, instance_id: str | None = None) -> None:
        host, _, port = bootstrap.partition(":")
        self._link = BlockingLink(Address(host, int(port)), "bare-member", 20)
        self._group = group
        self._topic = topic
        self._instance_id = instance_id
        self.id = ""
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    def ask(self, request: Any) -> Any:
        return self._link.ask(request)

    def _note(self, error_code: int) -> None:
        self.errors.append(ErrorCode(error_code).name)


class BareConsumerMember(BareMember):
    """Of the protocol of KIP-848; it makes its id itself."""

    epoch = 0

    def join(self, assignor: str | None = None) -> None:
        self.id = self.id or f"bare-{self._instance_id or 'member'}"
        self.epoch = 0
        self._beat(
            instance_id=self._instance_id,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[self._topic],
            topic_partitions=[],
            server_assignor=assignor,
        )

    def beat(self) -> None:
        self._beat(instance_id=self._instance_id)

    def _beat(self, **fields: Any) -> None:
        answer = self.ask(
            ConsumerGroupHeartbeatRequest(group_id=self._group, member_id=self.id, member_epoch=self.epoch, **fields)
        )
        self._note(answer.error_code)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch


class BareClassicMember(BareMember):
    """Of the classic protocol: it leads its group, and assigns nothing."""

    generation = -1

    def join(self, assignor: str = "range", session_timeout_ms: int = 45_000) -> None:
        protocols = [JoinGroupRequestProtocol(name=assignor, metadata=self._subscription())]
        for _ in range(2):  # The first answer has the id that a dynamic member joins with.
            joined = self.ask(
                JoinGroupRequest(
                    group_id=self._group,
                    member_id=self.id,
                    group_instance_id=self._instance_id,
                    session_timeout_ms=session_timeout_ms,
                    rebalance_timeout_ms=60_000,
                    protocol_type=CONSUMER_PROTOCOL,
                    protocols=protocols,
                )
            )
            self.id, self.generation = joined.member_id, joined.generation_id
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
        self._note(joined.error_code)
        if joined.error_code == ErrorCode.NONE:
            self.ask(self._named(SyncGroupRequest(protocol_type=CONSUMER_PROTOCOL, protocol_name=assignor)))

    def beat(self) -> None:
        self._note(self.ask(self._named(HeartbeatRequest())).error_code)

    def _named(self, request: Any) -> Any:
        request.group_id, request.member_id, request.generation_id = self._group, self.id, self.generation
        request.group_instance_id = self._instance_id
        return request

    def _subscription(self) -> bytes:
        return b"\0\0" + bytes(encode(ConsumerSubscription(topics=[self._topic]), 0))
