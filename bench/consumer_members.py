"""Members of consumer groups (KIP-848) as frames over one connection, and when partitions change their owner."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable
from typing import Final

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.headers import request_header
from sordini.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.served_apis import APIS
from tests.support.wire_client import Client

VERSION: Final = 1
LEAVING: Final = -1
REBALANCE_TIMEOUT_MS: Final = 300_000
NOT_READY: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
"""Of a coordinator that has just been found for the first group."""
TURNS_MAX: Final = 10_000
"""Heartbeats of each member until all have what they are to have."""

Owned = frozenset[tuple[object, int]]
"""Topic id and partition."""
OnChange = Callable[[Owned, Owned], None]
"""Called with what a member owned before an answer, and owns from now on."""


class Member:
    """What a member was told last, and so owns; it gives up at once what it is not to have any more."""

    def __init__(self, client: Client, group: str, member_id: str, topic: str, on_change: OnChange | None) -> None:
        self.member_id = member_id
        self.epoch = 0
        self.owned: Owned = frozenset()
        self._client = client
        self._group = group
        self._topic = topic
        self._on_change = on_change

    def beat(self, epoch: int | None = None) -> None:
        """One heartbeat; the first one joins, and one with LEAVING leaves. Raises AssertionError when it is refused."""
        request = self._request(self.epoch if epoch is None else epoch)
        answer: ConsumerGroupHeartbeatResponse = self._client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION, request)
        while answer.error_code in NOT_READY:
            time.sleep(0.02)
            answer = self._client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION, request)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            self._own(frozenset((row.topic_id, partition) for row in rows for partition in row.partitions))

    def leave(self) -> None:
        self._own(frozenset())
        self.beat(LEAVING)

    def steady_frame(self) -> bytes:
        """The bytes of a heartbeat that says nothing new."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=-1,
            topic_partitions=None,
        )
        header = request_header(APIS[ApiKey.CONSUMER_GROUP_HEARTBEAT], VERSION, 1, "bench")
        body = header + codecs.encode(request, VERSION)
        return struct.pack(">i", len(body)) + body

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        rows: dict[object, list[int]] = {}
        for topic_id, partition in sorted(self.owned, key=str):
            rows.setdefault(topic_id, []).append(partition)
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if epoch == 0 else -1,
            subscribed_topic_names=[self._topic] if epoch == 0 else None,
            topic_partitions=[TopicPartitions(topic_id=one, partitions=rows[one]) for one in rows],
        )

    def _own(self, owned: Owned) -> None:
        if self._on_change is not None and owned != self.owned:
            self._on_change(self.owned, owned)
        self.owned = owned


class Crowd:
    """The members of one group, which subscribe to the topic of its name. They take turns without a pause."""

    def __init__(self, client: Client, group: str, members: int, partitions: int) -> None:
        """Creates the topic, and waits until the group has a coordinator."""
        self.client = client
        self.on_change: OnChange | None = None
        self._group = group
        self._partitions = partitions
        self._joined = 0
        client.create(group, partitions=partitions)
        _await_coordinator(client, group)
        self.members = [self._member() for _ in range(members)]

    def settle(self) -> None:
        """Heartbeats until every partition has an owner and all members are at the same epoch."""
        for _ in range(TURNS_MAX):
            for member in self.members:
                member.beat()
            owned = sum(len(member.owned) for member in self.members)
            if owned == self._partitions and len({member.epoch for member in self.members}) == 1:
                return
        raise AssertionError(f"{self._group} did not settle: {owned} of {self._partitions} partitions have an owner")

    def restart(self, number: int) -> None:
        """One member leaves; when the others are settled, a new one joins."""
        self.members.pop(number).leave()
        self.settle()
        self.members.insert(number, self._member())
        self.settle()

    def leave(self) -> None:
        for member in self.members:
            member.leave()

    def beat_steadily(self, beats: int, in_flight: int) -> None:
        frames = [member.steady_frame() for member in self.members]
        for start in range(0, beats, in_flight):
            self.client.socket.sendall(b"".join(frames[at % len(frames)] for at in range(start, start + in_flight)))
            for _ in range(in_flight):
                self.client.receive(struct.unpack(">i", self.client.receive(4))[0])

    def _member(self) -> Member:
        self._joined += 1
        return Member(self.client, self._group, f"{self._group}-{self._joined}", self._group, self._changed)

    def _changed(self, before: Owned, after: Owned) -> None:
        if self.on_change is not None:
            self.on_change(before, after)


class Gaps:
    """The seconds that each partition was without an owner, each time that it changed its owner."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._lost: dict[tuple[object, int], float] = {}

    def changed(self, before: Owned, after: Owned) -> None:
        now = time.monotonic()
        self._lost.update(dict.fromkeys(before - after, now))
        self.seconds += (now - self._lost.pop(one) for one in after - before)


def settled(client: Client, name: str, groups: int, members: int) -> list[Crowd]:
    """So many groups, each with a topic of as many partitions as it has members."""
    crowds = [Crowd(client, f"{name}-{number}", members, members) for number in range(groups)]
    for crowd in crowds:
        crowd.settle()
    return crowds


def beat_all(crowds: Iterable[Crowd], in_flight: int) -> int:
    """One heartbeat of every member of every group; how many."""
    frames = [member.steady_frame() for crowd in crowds for member in crowd.members]
    client = next(iter(crowds)).client
    for start in range(0, len(frames), in_flight):
        some = frames[start : start + in_flight]
        client.socket.sendall(b"".join(some))
        for _ in some:
            client.receive(struct.unpack(">i", client.receive(4))[0])
    return len(frames)


def _await_coordinator(client: Client, group: str) -> None:
    """Until the group has one: the first group's offsets topic has to be created."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    while client.ask(ApiKey.FIND_COORDINATOR, 4, request).coordinators[0].error_code != 0:
        time.sleep(0.02)
