"""A cluster inside a test: what `make_kafka` starts, and what the fixtures `kafka` and `kafka_cluster` are.

    with make_kafka(brokers=3) as kafka:
        orders = kafka.topic(partitions=2)
        with kafka.on("Produce", topic=orders, times=2).fail("NOT_ENOUGH_REPLICAS"):
            my_service(kafka.bootstrap_servers, orders)
        kafka.assert_produced(orders, ["one", "two"])

Every method may be called from any thread but that of the brokers, one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import Any, Final, Self

from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from sordini.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.batch import Record, build_batch, read_header, read_records
from sordini.testing.brokers.site import Site
from sordini.testing.cluster import Cluster
from sordini.testing.faults.names import ApiName, api_of
from sordini.testing.faults.script import Rule
from sordini.testing.faults.seen import SeenRequest
from sordini.testing.faults.selection import Selection
from sordini.testing.node_handle import NodeHandle
from sordini.testing.own_client import TEMPORARY, KitError, OwnClient
from sordini.testing.records import KitRecord, Value, difference, encoded

BROKERS_MAX: Final = 9
FETCH_BYTES: Final = 1 << 22
THREAD: Final = "thread"
PROCESS: Final = "process"
CONTROL_BIT: Final = 32
ABORTED: Final = "aborted"


class KafkaClock:
    """The clock of the brokers; clients keep the machine's."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def advance(self, seconds: float) -> None:
        """Move it forward. What becomes due meanwhile happens in its order: retention, timeouts, sessions of groups."""
        if seconds < 0:
            raise ValueError(f"seconds={seconds:g}: a clock moves forward only")
        self._cluster.advance(seconds)

    def now_ms(self) -> int:
        """The time of day by it, in milliseconds since 1970."""
        return self._cluster.now_ms()


class Kafka:
    """One to nine brokers; `make_kafka` makes it."""

    def __init__(self, cluster: Cluster, topics: Mapping[str, int] | Iterable[str] = ()) -> None:
        """`topics` are names, or numbers of partitions by name; they are created at the start."""
        self._cluster = cluster
        self._topics = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        self._client = OwnClient(self._broker_addresses)
        self._names = count(1)
        self.clock = KafkaClock(cluster)
        self.brokers: list[NodeHandle] = []
        """In the order of their ids, which begin at 1."""

    def start(self) -> Self:
        """Start, and wait until all brokers serve. Raises SiteFailed, ConfigError."""
        self._cluster.start()
        self.brokers = [NodeHandle(self._cluster, state.id) for state in self._cluster.states()]
        for name, partitions in self._topics.items():
            self.topic(name, partitions=partitions)
        return self

    def close(self) -> None:
        """End all brokers. May be called again."""
        self._client.close()
        self._cluster.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            report = self.report()
            if report:
                error.add_note(report)
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of all brokers, separated by commas: what every client takes."""
        return ",".join("{}:{}".format(*state.clients) for state in self._cluster.states())

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
        name = name or f"topic-{next(self._names)}"
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=-1 if replicas is None else replicas,
            configs=[CreatableTopicConfig(name=key, value=_text(value)) for key, value in (config or {}).items()],
        )

        def created() -> Any:
            row = self._client.ask(
                CreateTopicsRequest(topics=[wanted], timeout_ms=20_000), broker=self.controller()
            ).topics[0]
            return None if row.error_code == ErrorCode.NOT_CONTROLLER else row

        row = self._client.wait(created, f"topic {name!r} is created")
        if row.error_code:
            raise KitError(f"topic {name!r}: {row.error_message or ''} ({ErrorCode(row.error_code).name})")
        for partition in range(partitions):
            self._client.leader(name, partition)
        self._client.wait(lambda: self._is_known(name, partitions) or None, f"every broker knows topic {name!r}")
        return name

    def produce(
        self,
        topic: str,
        values: Value | Iterable[Value],
        *,
        key: Value = None,
        partition: int = 0,
        headers: Mapping[str, Value] | None = None,
        timestamp_ms: int | None = None,
        acks: int = -1,
    ) -> int:
        """Append one record, or a list of them, in one batch; the offset of the first. Raises KitError.

        With `acks=1` the leader alone is waited for.
        """
        listed = list(values) if isinstance(values, (list, tuple)) else [values]
        now_ms = self._cluster.now_ms() if timestamp_ms is None else timestamp_ms
        pairs = tuple((name, encoded(value)) for name, value in (headers or {}).items())
        records = [
            Record(index, now_ms, encoded(key), encoded(value), pairs)  # type: ignore[arg-type]
            for index, value in enumerate(listed)
        ]
        data = [PartitionProduceData(index=partition, records=memoryview(build_batch(records)))]
        request = ProduceRequest(
            acks=acks, timeout_ms=20_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
        )

        def appended() -> int | None:
            response = self._client.ask(request, self._client.leader(topic, partition))
            row = response.responses[0].partition_responses[0]
            if row.error_code in TEMPORARY:
                return None
            if row.error_code:
                raise KitError(f"partition {partition} of topic {topic!r}: {ErrorCode(row.error_code).name}")
            return int(row.base_offset)

        offset: int = self._client.wait(appended, f"partition {partition} of topic {topic!r} takes records")
        return offset

    def records(
        self, topic: str, partition: int | None = None, *, isolation: str = "read_committed"
    ) -> list[KitRecord]:
        """All records of a topic, or of one partition, up to the high watermark, by partition and offset."""
        if isolation not in ("read_committed", "read_uncommitted"):
            raise ValueError(f"isolation={isolation!r}: allowed are 'read_committed' and 'read_uncommitted'")
        found = []
        for index in self._partitions(topic) if partition is None else [partition]:
            found += self._read(topic, index, is_committed=isolation == "read_committed")
        return found

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of the broker that leads a partition; waits for one. Raises KitError."""
        return self._client.leader(topic, partition)

    def controller(self) -> int:
        """The id of the active controller, or of a broker that knows none. Raises KitError when no broker runs."""
        controller = self._client.metadata("").controller_id
        return controller if controller in self._broker_addresses() else next(iter(self._broker_addresses()))

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """The ids of the brokers whose replicas of a partition are in sync, sorted."""
        rows = self._client.metadata(topic).topics[0].partitions
        return sorted(next(row.isr_nodes for row in rows if row.partition_index == partition))

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The high watermark of each partition."""
        return self._offsets(topic, -1)

    def assert_produced(
        self, topic: str, values: Iterable[Value], *, partition: int | None = None, in_order: bool = True
    ) -> None:
        """Assert that a topic has just these values. Raises AssertionError with the difference."""
        found = difference(values, self.records(topic, partition), is_ordered=in_order)
        if found is not None:
            raise AssertionError(f"topic {topic!r} has other records than expected:\n{found}")

    def expire(self, topic: str) -> None:
        """Remove all records of a topic, as retention would: a reader's offset is out of range then."""
        for partition, end in self.end_offsets(topic).items():
            rows = [DeleteRecordsPartition(partition_index=partition, offset=end)]
            request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=rows)], timeout_ms=20_000)
            row = self._client.ask(request, self._client.leader(topic, partition)).topics[0].partitions[0]
            if row.error_code:
                raise KitError(f"partition {partition} of topic {topic!r}: {ErrorCode(row.error_code).name}")

    # Groups and transactions.

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets that a group has committed, by topic and partition."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])

        def fetched() -> Any:
            row = self._client.ask(request, self._client.coordinator(group)).groups[0]
            return None if row.error_code in TEMPORARY else row

        row = self._client.wait(fetched, f"the offsets of group {group!r} can be read")
        if row.error_code:
            raise KitError(f"group {group!r}: {ErrorCode(row.error_code).name}")
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in row.topics
            for one in topic.partitions
            if one.committed_offset >= 0
        }

    def lag(self, group: str, topic: str) -> int:
        """How many records of a topic the group has not committed, over all partitions."""
        committed, starts = self.committed(group), self._offsets(topic, -2)
        return sum(
            max(0, end - committed.get((topic, partition), starts[partition]))
            for partition, end in self.end_offsets(topic).items()
        )

    def wait_until_consumed(self, group: str, topic: str | None = None, *, lag: int = 0, timeout_s: float = 10) -> None:
        """Wait until a group has committed a topic, or all topics it has offsets of, but for `lag` records.

        Raises KitError with what is left.
        """
        left: dict[str, int] = {}

        def consumed() -> bool | None:
            names = [topic] if topic is not None else sorted({name for name, _ in self.committed(group)})
            left.clear()
            left.update({name: self.lag(group, name) for name in names})
            return True if names and all(behind <= lag for behind in left.values()) else None

        try:
            self._client.wait(consumed, f"group {group!r} is at most {lag} records behind", timeout_s)
        except KitError as error:
            shown = (
                ", ".join(f"{behind} of topic {name!r}" for name, behind in left.items()) or "no offset is committed"
            )
            raise KitError(f"{error}; left are {shown}") from None

    def members(self, group: str) -> list[str]:
        """The ids of a group's members."""
        described = self._client.ask(DescribeGroupsRequest(groups=[group]), self._client.coordinator(group)).groups[0]
        return [member.member_id for member in described.members]

    def expel(self, group: str, member: str | None = None) -> None:
        """Remove a member from its group, or all of them: each learns it from its next heartbeat."""
        gone = self.members(group) if member is None else [member]
        request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=one) for one in gone])
        response = self._client.ask(request, self._client.coordinator(group))
        for row in response.members:
            if row.error_code:
                raise KitError(f"member {row.member_id!r} of group {group!r}: {ErrorCode(row.error_code).name}")

    def fence(self, transactional_id: str) -> None:
        """Begin a new epoch of a transactional id, as a second producer does: the first one is fenced."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)

        def fenced() -> Any:
            response = self._client.ask(request, self._client.coordinator(transactional_id, 1))
            return None if response.error_code in TEMPORARY else response

        response = self._client.wait(fenced, f"transactional id {transactional_id!r} is fenced")
        if response.error_code:
            raise KitError(f"transactional id {transactional_id!r}: {ErrorCode(response.error_code).name}")

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None) -> int:
        """Let another replica in sync lead a partition; its broker. Raises KitError when there is none."""
        from sordini.testing.leaders import move_leader

        return move_leader(self._client, topic, partition, to)

    # Faults.

    def on(
        self,
        api: ApiName,
        *,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        client_id: str | None = None,
        broker: int | None = None,
        when: Callable[[Any], bool] | None = None,
        times: int | None = None,
        after: int = 0,
    ) -> Rule:
        """A rule for the requests of clients that match; see `Rule` for what it can do. Raises ValueError.

        It is for at most `times` requests, of which the first `after` pass. `when` is asked of the decoded request.
        """
        selected = Selection(api_of(api), topic, partition, group, transactional_id, client_id, broker, when)
        return Rule(self._cluster.script, selected, times, after)

    def undo_faults(self) -> None:
        """Undo every fault: of requests, of disks and between brokers; and let paused brokers go on."""
        self._cluster.script.clear()
        for broker in self.brokers:
            broker.heal()
            broker.heal_disk()
            broker.resume()

    def begin_test(self) -> None:
        """Forget the requests and faults of an earlier test."""
        self._cluster.script.clear()
        self.forget_requests()
        for broker in self.brokers:
            broker.notes.clear()

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
            one
            for one in self._cluster.requests()
            if (key is None or one.key is key)
            and (client_id is None or one.client_id == client_id)
            and (when is None or when(one))
        ]

    def forget_requests(self) -> None:
        """Begin the list of requests anew."""
        self._cluster.forget_requests()

    def wait_for(self, holds: Callable[[], bool], timeout_s: float = 10) -> None:
        """Wait until something holds that the test asks for. Raises KitError."""
        self._client.wait(lambda: True if holds() else None, "what the test waits for", timeout_s)

    def log_lines(self, count: int = 50) -> list[str]:
        """The last lines that brokers have logged."""
        return self._cluster.log_lines(count)

    def report(self) -> str:
        """The faults of this test and what they did, for the report of a failure; empty without any."""
        script = self._cluster.script
        rules = [f"{rule.text()}, {rule.use()}" for rule in [*script.removed, *script.rules]]
        done = [str(one) for one in self._cluster.requests() if one.fault]
        brokers = [note for broker in self.brokers for note in broker.notes]
        lines = [*rules, *brokers, *done]
        return "\n".join(["Faults that were injected:", *(f"  {line}" for line in lines)]) if lines else ""

    # For the methods above.

    def _broker_addresses(self) -> dict[int, tuple[str, int]]:
        # The first one is asked what any broker can answer: a paused one would not, and one that is cut off knows less.
        running = [state for state in self._cluster.states() if state.is_running]
        running.sort(key=lambda state: (state.is_paused, len(state.cut_from)))
        return {state.id: state.brokers for state in running}

    def _is_known(self, topic: str, partitions: int) -> bool:
        from sordini.client.routing import metadata_request

        for broker in self._broker_addresses():
            row = self._client.ask(metadata_request([topic]), broker).topics[0]
            if row.error_code or sum(one.leader_id >= 0 for one in row.partitions) < partitions:
                return False
        return True

    def _partitions(self, topic: str) -> Sequence[int]:
        row = self._client.metadata(topic).topics[0]
        if row.error_code:
            raise KitError(f"topic {topic!r}: {ErrorCode(row.error_code).name}")
        return sorted(one.partition_index for one in row.partitions)

    def _offsets(self, topic: str, timestamp: int) -> dict[int, int]:
        found = {}
        for partition in self._partitions(topic):
            rows = [ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
            request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=rows)])

            def asked(request: Any = request, partition: int = partition) -> Any:
                row = self._client.ask(request, self._client.leader(topic, partition)).topics[0].partitions[0]
                return None if row.error_code in TEMPORARY else row

            row = self._client.wait(asked, f"offsets of topic {topic!r} can be read")
            if row.error_code:
                raise KitError(f"partition {partition} of topic {topic!r}: {ErrorCode(row.error_code).name}")
            found[partition] = row.offset
        return found

    def _read(self, topic: str, partition: int, *, is_committed: bool) -> list[KitRecord]:
        found: list[KitRecord] = []
        offset = self._offsets(topic, -2)[partition]
        end = self._offsets(topic, -1)[partition]
        while offset < end:
            wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            request = FetchRequest(
                isolation_level=int(is_committed), topics=[FetchTopic(topic=topic, partitions=[wanted])]
            )
            row = self._client.ask(request, self._client.leader(topic, partition)).responses[0].partitions[0]
            if row.error_code:
                raise KitError(f"partition {partition} of topic {topic!r}: {ErrorCode(row.error_code).name}")
            aborted = {(one.producer_id, one.first_offset) for one in row.aborted_transactions or ()}
            batches = list(_batches(row.records))
            if not batches:
                break  # What is left belongs to open transactions.
            records, offset = _visible(batches, aborted, offset)
            found += [
                KitRecord(topic, partition, one.offset, one.timestamp, one.key, one.value, one.headers)
                for one in records
            ]
        return found


def make_kafka(
    brokers: int = 1,
    *,
    topics: Mapping[str, int] | Iterable[str] = (),
    config: Mapping[str, object] | None = None,
    seed: int = 0,
    isolation: str = THREAD,
) -> Kafka:
    """A cluster for a `with` block; also to be started and closed by hand.

    `topics` are names, or numbers of partitions by name; `config` are keys of server.properties. The brokers are on a
    thread of this process; with `isolation="process"` they are in a process of their own, which ends with this one.
    """
    if not 1 <= brokers <= BROKERS_MAX:
        raise ValueError(f"brokers={brokers}: allowed are 1 to {BROKERS_MAX}")
    entries = {key: _text(value) for key, value in (config or {}).items()}
    if isolation == THREAD:
        return Kafka(Site(brokers, entries, seed), topics)
    if isolation == PROCESS:
        from sordini.testing.control.remote_site import RemoteSite  # Most tests do not need it.

        return Kafka(RemoteSite(brokers, entries, seed), topics)
    raise ValueError(f"isolation={isolation!r}: allowed are {THREAD!r} and {PROCESS!r}")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _batches(data: Any) -> Iterable[memoryview]:
    view, position = memoryview(data or b""), 0
    while len(view) - position > CONTROL_BIT:
        size = read_header(view, position).size
        if len(view) - position < size:
            return
        yield view[position : position + size]
        position += size


def _visible(batches: list[memoryview], aborted: set[tuple[int, int]], start: int) -> tuple[list[Record], int]:
    """The records of the batches that are neither aborted nor control records, and the offset behind them."""
    found: list[Record] = []
    open_aborted: set[int] = set()
    end = start
    for batch in batches:
        header = read_header(batch, 0)
        end = header.base_offset + header.last_offset_delta + 1
        open_aborted |= {producer for producer, first in aborted if first <= header.base_offset}
        if header.attributes & CONTROL_BIT:
            open_aborted.discard(header.producer_id)
            aborted = {
                (producer, first)
                for producer, first in aborted
                if producer != header.producer_id or first > header.base_offset
            }
            continue
        if header.attributes & 16 and header.producer_id in open_aborted:
            continue
        found += read_records(batch, header, start=start)
    return found, end
