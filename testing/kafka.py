"""A cluster inside a test: what `make_kafka` starts, and what the fixtures `kafka` and `kafka_cluster` are.

    with make_kafka(brokers=3) as kafka:
        orders = kafka.topic(partitions=2)
        with kafka.on("Produce", topic=orders, times=2).fail("NOT_ENOUGH_REPLICAS"):
            my_service(kafka.bootstrap_servers, orders)
        kafka.assert_produced(orders, ["one", "two"])

Every method may be called from any thread but that of the brokers, one thread at a time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sordini.packs.packed_records import KitRecord, Value
from sordini.testing.arguments import (
    INT32_MAX,
    many,
    one_of,
    partitions_by_topic,
    text,
    texts,
    whole,
)
from sordini.testing.batches import batch_of
from sordini.testing.brokers.node import CLIENTS
from sordini.testing.client_addresses import ClientAddresses
from sordini.testing.clock import KafkaClock
from sordini.testing.cluster import Cluster
from sordini.testing.faults.names import ApiName, api_of
from sordini.testing.faults.script import Rule
from sordini.testing.faults.seen import SeenRequest
from sordini.testing.group_handle import GroupHandle
from sordini.testing.group_state import GroupMember, member_ids
from sordini.testing.groups import Groups
from sordini.testing.lags import Lags
from sordini.testing.made_rules import MadeRules
from sordini.testing.node_handle import NodeHandle
from sordini.testing.own_client import OwnClient
from sordini.testing.owned_keys import settings
from sordini.testing.partitions import END, Partitions
from sordini.testing.record_difference import difference
from sordini.testing.report import Report
from sordini.testing.security import Sasl, Security
from sordini.testing.share_group_handle import ShareGroupHandle
from sordini.testing.share_groups import ShareGroups
from sordini.testing.topics import Topics
from sordini.testing.users import set_scram_user

if TYPE_CHECKING:
    from sordini.testing.registry import KitRegistry  # It imports a web server.


class Kafka(ClientAddresses):
    """One to nine brokers; `make_kafka` makes it."""

    def __init__(
        self,
        cluster: Cluster,
        topics: Mapping[str, int] | Iterable[str] = (),
        security: Security | None = None,
        registry: KitRegistry | None = None,
    ) -> None:
        """`topics` are names, or numbers of partitions by name; they are created at the start. Raises ValueError."""
        security = security or Security({CLIENTS: "PLAINTEXT"}, Sasl({}), is_mutual=False)
        super().__init__(cluster, security, registry)
        self._first_topics = partitions_by_topic("topics", topics)
        self._client = OwnClient(cluster.states)
        self._topics = Topics(self._client)
        self._partitions = Partitions(self._client)
        self._groups = Groups(self._client)
        self._names = count(1)
        self.clock = KafkaClock(cluster)
        self.brokers: list[NodeHandle] = []
        """In the order of their ids, which begin at 1."""
        self._report = Report(cluster)
        self._rules = MadeRules(cluster)

    def start(self) -> Self:
        """Start, and wait until all brokers serve. Raises SiteFailed, ConfigError."""
        self._cluster.start()
        self.brokers = [NodeHandle(self._cluster, state.id) for state in self._cluster.states()]
        for mechanism in self._security.scram_mechanisms:
            for login in self._security.logins:
                set_scram_user(self._client, login, mechanism)
        for name, partitions in self._first_topics.items():
            self.topic(name, partitions=partitions)
        if self._registry is not None:
            self._registry.start([state.brokers for state in self._cluster.states()])
        return self

    def close(self) -> None:
        """End all brokers. May be called again."""
        if self._registry is not None:
            self._registry.close()
        self._client.close()
        self._cluster.close()
        self._security.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                report = self.report()
                if report:
                    error.add_note(report)
            if error is None or isinstance(error, Exception):
                self.check_rules()
        finally:
            self.close()

    # Topics and records.

    def topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replicas: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic and wait until it can be used; its name, which is a new one unless given. Raises KitError."""
        name = f"topic-{next(self._names)}" if name is None else text("name", name)
        whole("partitions", partitions, 1, INT32_MAX)
        if replicas is not None:
            whole("replicas", replicas, 1, INT32_MAX)
        self._topics.create(name, partitions, replicas, settings(config))
        return name

    def produce(
        self,
        topic: str,
        values: Value | Iterable[Value],
        *,
        key: Value = None,
        partition: int = 0,
        headers: Mapping[str, Value] | Iterable[tuple[str, Value]] | None = None,
        timestamp_ms: int | None = None,
        acks: int = -1,
    ) -> int:
        """Append one record, or several of them, in one batch; the offset of the first. Raises KitError, ValueError.

        With `acks=1` the leader alone is waited for.
        """
        whole("partition", partition, 0, INT32_MAX)
        one_of("acks", acks, (-1, 1))
        now_ms = self._cluster.now_ms() if timestamp_ms is None else whole("timestamp_ms", timestamp_ms, 0)
        return self._partitions.append(topic, partition, batch_of(values, key, headers, now_ms), acks)

    def records(
        self, topic: str, partition: int | None = None, *, isolation: str = "read_committed"
    ) -> list[KitRecord]:
        """All records of a topic, or of one partition, up to the high watermark, by partition and offset."""
        one_of("isolation", isolation, ("read_committed", "read_uncommitted"))
        if partition is not None:
            whole("partition", partition, 0, INT32_MAX)
        found = []
        for index in self._partitions.numbers(topic) if partition is None else [partition]:
            found += self._partitions.read(topic, index, is_committed=isolation == "read_committed")
        return found

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of the broker that leads a partition; waits for one. Raises KitError."""
        return self._client.leader(topic, partition)

    def controller(self) -> int:
        """The id of the active controller, or of a broker that knows none. Raises KitError when no broker runs."""
        controller = self._client.metadata("").controller_id
        return controller if controller in self._client.brokers else self._client.brokers[0]

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """The ids of the brokers whose replicas of a partition are in sync, sorted."""
        rows = self._client.metadata(topic).topics[0].partitions
        return sorted(next(row.isr_nodes for row in rows if row.partition_index == partition))

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The high watermark of each partition."""
        return self._partitions.offsets(topic, END)

    def assert_produced(
        self, topic: str, values: Value | Iterable[Value], *, partition: int | None = None, in_order: bool = True
    ) -> None:
        """Assert that a topic has just these values, or this one. Raises AssertionError with the difference."""
        found = difference(many(values), self.records(topic, partition), is_ordered=in_order)
        if found is not None:
            raise AssertionError(f"topic {topic!r} has other records than expected:\n{found}")

    def load(
        self,
        path: str | os.PathLike[str],
        topics: Mapping[str, str] | Iterable[str] | None = None,
        *,
        offsets: str = "keep",
        config: Mapping[str, object] | None = None,
    ) -> dict[tuple[str, int], int]:
        """Load a file of `sordini topics pack`; the numbers of its records, by topic and partition.

        `topics` are those that are loaded, or their names here by their names in the file; by default all. Missing ones
        are created, `config` being settings of theirs. Records keep their offsets, or with `offsets="dense"` follow
        what is there. Raises ValueError (PackError for a damaged file), and KitError.
        """
        from sordini.testing.packs.loading import PackLoading  # Few tests need it.

        chosen = texts("topics", topics) if isinstance(topics, str) else topics
        return PackLoading(self._cluster, self._topics, self._partitions).load(path, chosen, offsets, settings(config))

    def expire(self, topic: str) -> None:
        """Remove all records of a topic, as retention would: a reader's offset is out of range then."""
        self._partitions.delete_all(topic)

    # Groups and transactions.

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets that a group has committed, by topic and partition. Raises KitError."""
        return self._groups.committed(group)

    def lag(self, group: str, topic: str) -> int:
        """How many records of a topic the group has not committed, over all partitions."""
        return Lags(self._client, self._groups, self._partitions).of(group, topic)

    def wait_until_consumed(
        self, group: str, topic: str | Iterable[str] | None = None, *, lag: int = 0, timeout_s: float = 10
    ) -> None:
        """Wait until a group has committed topics, or all topics it has offsets of, but for `lag` records.

        Raises KitError with what is left.
        """
        chosen = None if topic is None else texts("topic", topic)
        lags = Lags(self._client, self._groups, self._partitions)
        lags.wait(group, chosen, whole("lag", lag, 0), timeout_s)

    def group(self, name: str) -> GroupHandle:
        """A group: its state, and its faults. Raises ValueError."""
        return GroupHandle(self._groups, self.on, name)

    def share_group(self, name: str) -> ShareGroupHandle:
        """A share group (KIP-932): its state, its records in flight, and its faults. Raises ValueError."""
        return ShareGroupHandle(ShareGroups(self._client), self.on, self.clock, name)

    def members(self, group: str) -> list[GroupMember]:
        """The members of a classic or a consumer group; none of one that does not exist. Raises KitError."""
        return list(self._groups.describe(group).members)

    def expel(self, group: str, member: GroupMember | str | Iterable[GroupMember | str] | None = None) -> None:
        """Remove members from their group, or all of them: each learns it from its next heartbeat. Raises KitError."""
        self._groups.expel(group, member_ids("member", self.members(group) if member is None else member))

    def fence(self, transactional_id: str) -> None:
        """Begin a new epoch of a transactional id, as a second producer does: the first one is fenced."""
        self._groups.fence(transactional_id)

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None) -> int:
        """Let another replica in sync lead a partition; its broker. Raises KitError when there is none."""
        from sordini.testing.leaders import move_leader

        whole("partition", partition, 0, INT32_MAX)
        return move_leader(self._client, topic, partition, None if to is None else whole("to", to, 1))

    # Faults.

    def on(
        self,
        api: ApiName,
        *,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        member_id: str | None = None,
        assignor: str | None = None,
        transactional_id: str | None = None,
        client_id: str | None = None,
        broker: int | None = None,
        when: Callable[[Any], bool] | None = None,
        times: int | None = None,
        after: int = 0,
    ) -> Rule:
        """A rule for the requests of clients that match; see `Rule` for what it can do. Raises ValueError.

        It is for at most `times` requests, of which the first `after` pass. `when` is asked of the decoded request;
        what it raises fails the test.
        """
        selected = {
            "topic": topic,
            "partition": partition,
            "group": group,
            "member_id": member_id,
            "assignor": assignor,
            "transactional_id": transactional_id,
            "client_id": client_id,
            "broker": broker,
            "when": when,
        }
        caller = sys._getframe(1)  # noqa: SLF001 - the place is shown when the rule is a mistake.
        return self._rules.add(api, selected, (broker.id for broker in self.brokers), times, after, caller)

    def check_rules(self) -> None:
        """Raise what a `when` of this test has raised, and ValueError for a rule of it that does nothing."""
        self._rules.check()

    def undo_faults(self) -> None:
        """Undo every fault: of requests, of disks and between brokers; and resume paused brokers."""
        self._cluster.script.clear()
        for broker in self.brokers:
            broker.heal()
            broker.heal_disk()
            broker.resume()

    def begin_test(self) -> None:
        """Forget the requests and faults of an earlier test."""
        self._cluster.script.clear()
        self.forget_requests()
        self.begin_report()

    def begin_report(self) -> None:
        """What was done until now is of an earlier test: a report is not to show it."""
        self._rules.forget()
        self._report.begin()

    def end_test(self) -> None:
        """Undo every fault, and start the brokers again that were stopped or killed."""
        self.undo_faults()
        for broker in self.brokers:
            broker.start()

    def requests(
        self,
        api: ApiName | None = None,
        *,
        client_id: str | None = None,
        when: Callable[[SeenRequest], bool] | None = None,
    ) -> list[SeenRequest]:
        """What clients have sent, oldest first."""
        key = None if api is None else api_of(api)
        return [
            request
            for request in self._cluster.requests()
            if (key is None or request.key is key)
            and (client_id is None or request.client_id == client_id)
            and (when is None or when(request))
        ]

    def forget_requests(self) -> None:
        """Begin the list of requests anew."""
        self._cluster.forget_requests()

    def wait_for(self, holds: Callable[[], bool], timeout_s: float = 10) -> None:
        """Wait until something holds that the test asks for. Raises KitError."""

        def found() -> bool | None:
            self._rules.check_mistakes()
            return True if holds() else None

        self._client.wait(found, "what the test waits for", timeout_s)

    def log_lines(self, count: int = 50) -> list[str]:
        """The last lines that brokers have logged."""
        return self._cluster.log_lines(count)

    def report(self) -> str:
        """The faults of this test and what they did, for the report of a failure; empty without any."""
        return self._report.faults(self.brokers)

    def report_log(self, count: int) -> str:
        """The last lines that brokers have logged since this test began; empty without any."""
        return self._report.log(count)
