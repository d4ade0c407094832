"""Commands and answers on the wire: what a version has a place for arrives, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sordini.broker.cluster.commands.control_wire import ControlWire, answer_of, command_of, request_of, response_of
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from sordini.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    EPOCH_DURING_DELETION,
    Broker,
    BrokerEndpoint,
    Command,
    CommandAnswer,
    DeletedPartition,
    LeaderAndIsr,
    PartitionInfo,
    PartitionState,
    StoppedReplica,
    StopReplica,
    UpdateMetadata,
)
from sordini.replication.inter_broker_versions import OLDEST, InterBrokerVersions, versions_for

LISTENER = "INTERNAL"
ME = BrokerId(1)
# The explanation of a failure takes minutes for values of this size.
PHASES = (Phase.generate, Phase.shrink)
LAW = settings(max_examples=6, deadline=None, database=None, phases=PHASES)
KEYS = {
    LeaderAndIsr: ApiKey.LEADER_AND_ISR,
    UpdateMetadata: ApiKey.UPDATE_METADATA,
    StopReplica: ApiKey.STOP_REPLICA,
}


def id_of(topic: str) -> TopicId:
    return TopicId(topic.encode().ljust(16, b"\x07"))


int32 = st.integers(0, 2**31 - 1)
broker_ids = st.builds(BrokerId, int32)
several = st.lists(broker_ids, max_size=3).map(tuple)
names = st.builds(TopicPartition, st.sampled_from(["orders", "bills", "log"]), st.integers(0, 50))
states = st.builds(
    PartitionState,
    st.none() | broker_ids,
    st.builds(LeaderEpoch, int32),
    several,
    int32,
    recovering=st.booleans(),
)
epochs = st.integers(-1, 2**63 - 1)
endpoints = st.builds(
    BrokerEndpoint,
    st.sampled_from([LISTENER, "EXTERNAL"]),
    st.text("abc.", min_size=1, max_size=8),
    st.integers(1, 65535),
    st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
)
some_brokers = st.lists(
    st.builds(
        Broker,
        broker_ids,
        st.just(-1),
        st.lists(endpoints, max_size=2, unique_by=lambda endpoint: endpoint.listener).map(tuple),
        st.none() | st.text("rack", min_size=1, max_size=5),
        st.just(False),
        st.lists(endpoints, max_size=1).map(tuple),
    ),
    max_size=3,
).map(tuple)


def unique(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    rows = st.lists(strategy, max_size=4, unique_by=lambda row: row.topic_partition)
    return rows.map(lambda found: tuple(sorted(found, key=lambda row: row.topic_partition)))


def with_id(info: Any) -> Any:
    return info._replace(topic_id=id_of(info.topic_partition.topic))


infos = st.builds(
    PartitionInfo,
    names,
    st.just(NO_TOPIC_ID),
    several,
    states,
    int32,
    adding=several,
    removing=several,
    offline_replicas=several,
    is_new=st.booleans(),
).map(with_id)
deleted = st.builds(DeletedPartition, names, st.just(NO_TOPIC_ID)).map(with_id)
stopped = st.builds(StoppedReplica, names, st.integers(-2, 2**31 - 1).map(LeaderEpoch), st.booleans())

commands: dict[ApiKey, st.SearchStrategy[Any]] = {
    ApiKey.LEADER_AND_ISR: st.builds(
        LeaderAndIsr, broker_ids, int32, epochs, unique(infos), some_brokers, st.just(False)
    ),
    ApiKey.UPDATE_METADATA: st.builds(
        UpdateMetadata, broker_ids, int32, epochs, some_brokers, unique(infos), unique(deleted)
    ),
    ApiKey.STOP_REPLICA: st.builds(StopReplica, broker_ids, int32, epochs, unique(stopped)),
}


every_version = pytest.mark.parametrize(
    ("key", "version"),
    [(key, version) for key in commands for version in range(APIS[key].max_version + 1)],
    ids=lambda value: getattr(value, "name", value),
)


def over_the_wire(command: Command, version: int) -> Command:
    """What arrives, after an encoding and a decoding of the real messages."""
    api = APIS[KEYS[type(command)]]
    written = codecs.encode(request_of(command, version, LISTENER), version)
    request, end = codecs.decode(api.request, version, memoryview(written))
    assert end == len(written)
    return command_of(request, LISTENER)


def back(command: Command, answer: CommandAnswer, version: int) -> CommandAnswer:
    api = APIS[KEYS[type(command)]]
    written = codecs.encode(response_of(command, answer), version)
    return answer_of(command, codecs.decode(api.response, version, memoryview(written))[0])


# What each version has a place for, spelled out once more.


def expected(command: Command, version: int) -> Command:
    if isinstance(command, LeaderAndIsr):
        reported = command._replace(broker_epoch=command.broker_epoch if version >= 2 else -1)
        leaders = [
            Broker(leader.broker_id, -1, (endpoint._replace(security_protocol="PLAINTEXT"),))
            for leader in command.live_leaders
            for endpoint in leader.endpoints
            if endpoint.listener == LISTENER
        ]
        rows = [
            info._replace(
                topic_id=info.topic_id if version >= 5 else NO_TOPIC_ID,
                adding=info.adding if version >= 3 else (),
                removing=info.removing if version >= 3 else (),
                is_new=info.is_new and version >= 1,
                offline_replicas=(),
                state=info.state._replace(recovering=info.state.recovering and version >= 6),
            )
            for info in command.partitions
        ]
        return reported._replace(partitions=tuple(rows), live_leaders=tuple(leaders))
    if isinstance(command, UpdateMetadata):
        topic_ids = version >= 7
        rows = [
            info._replace(
                topic_id=info.topic_id if topic_ids else NO_TOPIC_ID,
                adding=(),
                removing=(),
                is_new=False,
                offline_replicas=info.offline_replicas if version >= 4 else (),
                state=info.state._replace(recovering=False),
            )
            for info in command.partitions
        ]
        return command._replace(
            broker_epoch=command.broker_epoch if version >= 5 else -1,
            live_brokers=tuple(expected_broker(broker, version) for broker in command.live_brokers),
            partitions=tuple(rows),
            deleted=tuple(gone if topic_ids else gone._replace(topic_id=NO_TOPIC_ID) for gone in command.deleted),
        )
    return command._replace(
        broker_epoch=command.broker_epoch if version >= 1 else -1,
        partitions=tuple(
            row if version >= 3 else row._replace(leader_epoch=LeaderEpoch(-1)) for row in command.partitions
        ),
    )


def expected_broker(broker: Broker, version: int) -> Broker:
    reported = broker.endpoints
    if version == 0:
        reported = tuple(endpoint for endpoint in reported if endpoint.security_protocol == "PLAINTEXT")[:1]
    if version < 3:
        reported = tuple(endpoint._replace(listener=endpoint.security_protocol) for endpoint in reported)
    # Addresses by rule are read from registrations.
    return broker._replace(endpoints=reported, rack=broker.rack if version >= 2 else None, rule_endpoints=())


@every_version
@LAW
@given(data=st.data())
def test_a_command_arrives_as_far_as_the_version_has_a_place_for_it(
    key: ApiKey, version: int, data: st.DataObject
) -> None:
    command = data.draw(commands[key])
    if isinstance(command, StopReplica) and version < 3:
        delete = data.draw(st.booleans())
        command = command._replace(partitions=tuple(row._replace(delete=delete) for row in command.partitions))
    assert over_the_wire(command, version) == expected(command, version)


@every_version
@LAW
@given(data=st.data())
def test_an_answer_arrives_in_every_version(key: ApiKey, version: int, data: st.DataObject) -> None:
    command = data.draw(commands[key])
    partitions = () if isinstance(command, UpdateMetadata) else command.partitions
    codes = data.draw(st.fixed_dictionaries({}, optional={row.topic_partition: st.just(56) for row in partitions}))
    answer = CommandAnswer(0, codes)
    assert back(command, answer, version) == answer


@every_version
@LAW
@given(data=st.data())
def test_what_was_refused_as_a_whole_is_refused_for_every_partition(
    key: ApiKey, version: int, data: st.DataObject
) -> None:
    command = data.draw(commands[key])
    partitions = () if isinstance(command, UpdateMetadata) else command.partitions
    answer = back(command, CommandAnswer(ErrorCode.STALE_CONTROLLER_EPOCH), version)
    assert answer == CommandAnswer(11, {row.topic_partition: 11 for row in partitions})


def a_partition(topic: str = "orders", index: int = 0, topic_id: TopicId | None = None) -> PartitionInfo:
    state = PartitionState(ME, LeaderEpoch(3), (ME,), 2)
    return PartitionInfo(TopicPartition(topic, index), id_of(topic) if topic_id is None else topic_id, (ME,), state, 4)


def test_a_deleted_partition_is_encoded_as_leader_minus_two() -> None:
    gone = DeletedPartition(TopicPartition("orders", 5), id_of("orders"))
    request: Any = request_of(UpdateMetadata(ME, 2, 7, (), (a_partition(),), (gone,)), 8, LISTENER)
    rows = [
        (topic.topic_name, topic.topic_id, row.partition_index, row.leader, row.leader_epoch, row.zk_version)
        for topic in request.topic_states
        for row in topic.partition_states
    ]
    assert rows == [("orders", id_of("orders"), 0, 1, 3, 4), ("orders", id_of("orders"), 5, -2, 0, 0)]


def test_a_topic_that_is_gone_and_there_again_keeps_both_ids() -> None:
    old, new = TopicId(b"o" * 16), TopicId(b"n" * 16)
    gone = DeletedPartition(TopicPartition("orders", 0), old)
    command = UpdateMetadata(ME, 2, 7, (), (a_partition(topic_id=new),), (gone,))
    arrived = over_the_wire(command, 8)
    assert arrived == command


def test_a_leaderless_partition_is_encoded_as_leader_minus_one() -> None:
    info = a_partition()
    info = info._replace(state=info.state._replace(leader=None))
    for command in (LeaderAndIsr(ME, 2, 7, (info,), ()), UpdateMetadata(ME, 2, 7, (), (info,))):
        request: Any = request_of(command, 7, LISTENER)
        assert request.topic_states[0].partition_states[0].leader == -1
        assert over_the_wire(command, 7) == command


def test_epochs_that_are_not_compared_travel_as_they_are() -> None:
    command = StopReplica(ME, 2, -1, (StoppedReplica(TopicPartition("orders", 0), EPOCH_DURING_DELETION, True),))
    request: Any = request_of(command, 4, LISTENER)
    assert request.topic_states[0].partition_states[0].leader_epoch == -2
    assert request.broker_epoch == -1


def test_old_versions_of_stop_replica_cannot_delete_some_and_keep_others() -> None:
    rows = tuple(StoppedReplica(TopicPartition("orders", index), LeaderEpoch(1), index == 0) for index in range(2))
    for version in range(3):
        with pytest.raises(AssertionError, match="cannot delete some"):
            request_of(StopReplica(ME, 2, 7, rows), version, LISTENER)
    assert over_the_wire(StopReplica(ME, 2, 7, rows), 3) == StopReplica(ME, 2, 7, rows)


def test_leaders_are_sent_with_their_inter_broker_address() -> None:
    leader = Broker(
        ME, 9, (BrokerEndpoint("EXTERNAL", "out", 9092), BrokerEndpoint(LISTENER, "in", 9093, "SSL")), "rack"
    )
    other = Broker(BrokerId(2), 9, (BrokerEndpoint("EXTERNAL", "out", 9092),))
    request: Any = request_of(LeaderAndIsr(ME, 2, 7, (a_partition(),), (leader, other)), 7, LISTENER)
    assert [(row.broker_id, row.host_name, row.port) for row in request.live_leaders] == [(1, "in", 9093)]


def test_an_endpoint_of_an_unknown_security_protocol_is_neither_sent_nor_accepted() -> None:
    strange = Broker(ME, -1, (BrokerEndpoint("X", "h", 1, "CARRIER_PIGEON"), BrokerEndpoint(LISTENER, "h", 2)))
    arrived = over_the_wire(UpdateMetadata(ME, 2, 7, (strange,)), 8)
    assert isinstance(arrived, UpdateMetadata)
    assert arrived.live_brokers == (Broker(ME, -1, (BrokerEndpoint(LISTENER, "h", 2),)),)
    for number in (-1, 4):
        reported = UpdateMetadataBroker(id=1, endpoints=[UpdateMetadataEndpoint(security_protocol=number)])
        with pytest.raises(WireError, match=f"security protocol {number}"):
            command_of(UpdateMetadataRequest(live_brokers=[reported]), LISTENER)


def test_the_answer_is_grouped_by_topic_id_from_version_5_on_and_flat_before() -> None:
    command = LeaderAndIsr(ME, 2, 7, (a_partition("orders", 0), a_partition("bills", 0), a_partition("orders", 1)), ())
    answer = CommandAnswer(0, {TopicPartition("orders", 1): 56})
    for version, flat, grouped in [(4, 3, []), (5, 0, [2, 1])]:
        written = codecs.encode(response_of(command, answer), version)
        read, _ = codecs.decode(LeaderAndIsrResponse, version, memoryview(written))
        assert len(read.partition_errors) == flat
        assert [len(topic.partition_errors) for topic in read.topics] == grouped
        assert answer_of(command, read) == answer


OURS = versions_for((3, 9), 0)


@pytest.mark.parametrize(("versions", "sent"), [(OLDEST, (4, 6, 3)), (OURS, (7, 8, 4))])
def test_the_protocol_setting_decides_in_which_version_a_command_goes_out(
    versions: InterBrokerVersions, sent: tuple[int, int, int]
) -> None:
    wire = ControlWire(versions, LISTENER)
    ordered: list[Command] = [
        LeaderAndIsr(ME, 2, 7, (a_partition(),), ()),
        UpdateMetadata(ME, 2, 7, ()),
        StopReplica(ME, 2, 7, ()),
    ]
    for command, version in zip(ordered, sent, strict=True):
        assert wire.request(command) == (request_of(command, version, LISTENER), version)
        assert wire.answer(command, response_of(command, CommandAnswer(77))).error == 77
