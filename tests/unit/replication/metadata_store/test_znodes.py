"""Content of the nodes, byte for byte as Apache Kafka writes it, and tolerant decoding."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition, topic_id_text
from sordini.replication.cluster_model import Broker, BrokerEndpoint, Malformed, PartitionState, TopicAssignment
from sordini.replication.metadata_store import znodes
from tests.support.parts import examples

PARTITION = TopicPartition("t", 0)
BROKER = Broker(BrokerId(3), 77, (BrokerEndpoint("PLAINTEXT", "h", 9092),))


def test_a_broker_is_written_as_version_five() -> None:
    assert znodes.encode_broker(BROKER, 1_700_000_000_000) == (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://h:9092"],"jmx_port":-1,"port":9092,"host":"h","version":5,'
        b'"timestamp":"1700000000000"}'
    )


def test_a_broker_without_a_plaintext_endpoint_has_no_host_for_old_readers_and_keeps_its_rack() -> None:
    broker = Broker(BrokerId(1), 5, (BrokerEndpoint("INTERNAL", "::1", 9093, "SASL_SSL"),), rack="r1")
    value = json.loads(znodes.encode_broker(broker, 0))
    assert (value["host"], value["port"], value["rack"]) == (None, -1, "r1")
    assert value["endpoints"] == ["INTERNAL://[::1]:9093"]
    assert znodes.decode_broker(BrokerId(1), json.dumps(value).encode(), 5) == broker


@pytest.mark.parametrize(
    "text",
    [
        '{"version":4,"endpoints":["PLAINTEXT://h:9092"],"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"}}',
        '{"version":3,"endpoints":["PLAINTEXT://h:9092"],"timestamp":1}',
        '{"version":6,"new":{"x":[1]},"endpoints":["PLAINTEXT://h:9092"],"features":{"f":{"min":1}}}',
    ],
)
def test_other_versions_of_a_broker_are_decoded(text: str) -> None:
    assert znodes.decode_broker(BrokerId(3), text.encode(), 77) == BROKER


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"\xff\xfe\xfa", b'{"version":5}', b'{"endpoints":["h:9092"]}', b"[" * 100_000]
)
def test_a_malformed_broker_is_a_malformed_value(data: bytes) -> None:
    broker = znodes.decode_broker(BrokerId(3), data, 1)
    assert isinstance(broker, Malformed)
    assert broker.path == "/brokers/ids/3"
    assert broker.reason


def test_addresses_by_rule_have_a_key_of_their_own_and_none_without_rules() -> None:
    rules = (BrokerEndpoint("HOST", "localhost", 19092), BrokerEndpoint("SIX", "::1", 1))
    plain = Broker(BrokerId(1), 7, (BrokerEndpoint("SECURE", "h", 9093, "SSL"),))
    written = znodes.encode_broker(plain._replace(rule_endpoints=rules), 5)
    assert json.loads(written)["sordini_rule_endpoints"] == ["HOST://localhost:19092", "SIX://[::1]:1"]
    assert json.loads(written)["endpoints"] == ["SECURE://h:9093"]
    assert znodes.decode_broker(BrokerId(1), written, 7) == plain._replace(rule_endpoints=rules)
    assert "sordini_rule_endpoints" not in json.loads(znodes.encode_broker(plain, 5))


@pytest.mark.parametrize("rules", ['["x"]', '["A://h:99999"]', "[1]", '"A://h:1"', "{}", "null"])
def test_malformed_addresses_by_rule_are_left_out_and_the_broker_stays(rules: str) -> None:
    data = f'{{"version":5,"endpoints":["PLAINTEXT://h:9092"],"sordini_rule_endpoints":{rules}}}'
    assert znodes.decode_broker(BrokerId(3), data.encode(), 77) == BROKER


def test_a_topic_is_written_as_version_three_with_its_id() -> None:
    topic = TopicAssignment("t", {0: (BrokerId(1), BrokerId(2))}, TopicId(bytes(range(16))))
    assert znodes.encode_topic(topic) == (
        b'{"removing_replicas":{},"partitions":{"0":[1,2]},"topic_id":"AAECAwQFBgcICQoLDA0ODw",'
        b'"adding_replicas":{},"version":3}'
    )


def test_a_topic_of_an_old_broker_has_no_id() -> None:
    topic = znodes.decode_topic("t", b'{"version":1,"partitions":{"0":[1],"1":[2]}}', 4)
    assert topic == TopicAssignment("t", {0: (BrokerId(1),), 1: (BrokerId(2),)}, NO_TOPIC_ID, version=4)


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":3,"partitions":{}}',
        b'{"version":3,"partitions":{"0":[]}}',
        b'{"version":3,"partitions":{"x":[1]}}',
        b'{"version":3,"partitions":{"0":["1"]}}',
        b'{"version":3,"partitions":{"0":[1]},"topic_id":"short"}',
        b'{"version":3,"partitions":{"0":[true]}}',
        b'{"version":3,"partitions":{"-1":[1]}}',
        b'{"version":3,"partitions":{"2147483648":[1]}}',
        b'{"version":3,"partitions":{"0":[2147483648]}}',
    ],
)
def test_an_inconsistent_topic_is_malformed(data: bytes) -> None:
    assert isinstance(znodes.decode_topic("t", data, 0), Malformed)


def test_a_topic_without_an_id_is_written_as_version_two() -> None:
    topic = TopicAssignment("t", {0: (BrokerId(1),)})
    assert znodes.encode_topic(topic) == (
        b'{"removing_replicas":{},"partitions":{"0":[1]},"adding_replicas":{},"version":2}'
    )


def test_an_isr_change_notification_names_partitions() -> None:
    data = znodes.encode_isr_change([TopicPartition("t", 0), TopicPartition("t", 2)])
    assert data == b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":2}]}'
    assert znodes.decode_isr_change(data) == [TopicPartition("t", 0), TopicPartition("t", 2)]


def test_an_isr_change_notification_names_valid_partitions_only() -> None:
    named = [TopicPartition(name, 0) for name in ("../x", "a/b", "", "..", "a")] + [TopicPartition("a", -1)]
    assert znodes.decode_isr_change(znodes.encode_isr_change(named)) == [TopicPartition("a", 0)]


def test_a_log_dir_event_notification_names_its_broker() -> None:
    data = znodes.encode_log_dir_event(BrokerId(3))
    assert data == b'{"version":1,"broker":3,"event":1}'
    assert znodes.decode_log_dir_event(data) == 3


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"partitions":[7]}', b'{"partitions":7,"broker":"3"}'])
def test_an_empty_notification_is_malformed(data: bytes) -> None:
    assert isinstance(znodes.decode_isr_change(data), Malformed)
    assert isinstance(znodes.decode_log_dir_event(data), Malformed)


def test_features_have_the_version_of_the_protocol() -> None:
    assert znodes.encode_features(1) == b'{"features":{},"version":1,"status":1}'
    assert znodes.decode_features(znodes.encode_features(2)) == (2, False)
    assert znodes.decode_features(b'{"version":2,"features":{},"status":0}') == (None, False)
    assert isinstance(znodes.decode_features(b""), Malformed)


def test_a_pure_cluster_has_finalized_the_transaction_version() -> None:
    old = b'{"features":{"transaction.version":{"min_version_level":1,"max_version_level":2}},"version":1,"status":1}'
    assert znodes.encode_features(1, is_exclusive=True) == old
    assert znodes.encode_features(2, is_exclusive=True) == (
        b'{"features":{"transaction.version":{"max_version_level":2}},"version":2,"status":1}'
    )
    for version in (1, 2):
        assert znodes.decode_features(znodes.encode_features(version, is_exclusive=True)) == (version, True)


def test_a_broker_of_a_pure_cluster_registers_the_transaction_version() -> None:
    pure = Broker(BrokerId(1), 7, (BrokerEndpoint("PLAINTEXT", "host", 9092),), is_exclusive=True)
    data = znodes.encode_broker(pure, 0)
    assert b'"features":{"transaction.version":{"min_version":1,"max_version":2}}' in data
    assert znodes.decode_broker(BrokerId(1), data, 7) == pure
    other = data.replace(b'"max_version":2', b'"max_version":1')
    assert znodes.decode_broker(BrokerId(1), other, 7) == pure._replace(is_exclusive=False)


def test_a_state_is_written_as_version_one() -> None:
    state = PartitionState(BrokerId(1), LeaderEpoch(4), (BrokerId(1), BrokerId(2)), 7)
    assert znodes.encode_state(state) == (b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}')
    leaderless = PartitionState(None, LeaderEpoch(4), (BrokerId(1),), 7, recovering=True)
    assert znodes.encode_state(leaderless) == (
        b'{"controller_epoch":7,"leader":-1,"version":1,"leader_epoch":4,"isr":[1],"leader_recovery_state":1}'
    )


def test_a_controller_is_read_from_both_versions() -> None:
    assert znodes.decode_controller(b'{"version":1,"brokerid":2,"timestamp":"5"}') == 2
    assert znodes.encode_controller(BrokerId(2), 5) == (
        b'{"version":2,"brokerid":2,"timestamp":"5","kraftControllerEpoch":-1}'
    )
    assert znodes.decode_controller(znodes.encode_controller(BrokerId(2), 5)) == 2


def test_a_config_change_is_read_from_both_versions_of_its_notification() -> None:
    assert znodes.decode_config_change(b'{"version":2,"entity_path":"topics/t1"}') == "topics/t1"
    assert znodes.decode_config_change(b'{"version":1,"entity_type":"topics","entity_name":"t1"}') == "topics/t1"
    assert isinstance(znodes.decode_config_change(b'{"version":2,"entity_path":""}'), Malformed)


def test_settings_are_all_text() -> None:
    config = {"retention.ms": "5", "cleanup.policy": "compact"}
    assert znodes.encode_config(config) == (b'{"version":1,"config":{"retention.ms":"5","cleanup.policy":"compact"}}')
    assert znodes.decode_config("topics/t", znodes.encode_config(config)) == config
    assert znodes.decode_config("topics/t", b"") == {}
    assert isinstance(znodes.decode_config("topics/t", b'{"config":[]}'), Malformed)


def test_the_end_of_a_producer_id_block_is_inclusive_in_its_node() -> None:
    block = znodes.ProducerIdBlock(BrokerId(3), 2000, 3000)
    data = znodes.encode_producer_id_block(block)
    assert data == b'{"version":1,"broker":3,"block_start":"2000","block_end":"2999"}'
    assert znodes.decode_producer_id_block(data) == block
    assert znodes.decode_producer_id_block(b"") is None


def test_a_cluster_id_has_twenty_two_characters() -> None:
    data = znodes.encode_cluster_id("AAECAwQFBgcICQoLDA0ODw")
    assert data == b'{"version":"1","id":"AAECAwQFBgcICQoLDA0ODw"}'
    assert znodes.decode_cluster_id(data) == "AAECAwQFBgcICQoLDA0ODw"
    assert isinstance(znodes.decode_cluster_id(b'{"version":"1","id":"x"}'), Malformed)


IDS = st.integers(0, 2**31 - 1).map(BrokerId)


@given(
    st.dictionaries(st.integers(0, 99), st.lists(IDS, min_size=1).map(tuple), min_size=1),
    st.binary(min_size=16, max_size=16),
)
def test_a_topic_is_read_as_it_was_written(replicas: dict[int, tuple[BrokerId, ...]], topic_id: bytes) -> None:
    topic = TopicAssignment("t", replicas, TopicId(topic_id), version=3)
    assert znodes.decode_topic("t", znodes.encode_topic(topic), 3) == topic
    assert topic_id == bytes(16) or topic_id_text(TopicId(topic_id)).encode() in znodes.encode_topic(topic)


@given(st.none() | IDS, st.integers(0, 2**31 - 1), st.lists(IDS).map(tuple), st.integers(0, 99), st.booleans())
def test_a_state_is_read_as_it_was_written(
    leader: BrokerId | None, epoch: int, isr: tuple[BrokerId, ...], controller_epoch: int, recovering: int
) -> None:
    state = PartitionState(leader, LeaderEpoch(epoch), isr, controller_epoch, bool(recovering))
    assert znodes.decode_state(PARTITION, znodes.encode_state(state)) == state


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                [
                    "endpoints",
                    "partitions",
                    "leader",
                    "leader_epoch",
                    "isr",
                    "controller_epoch",
                    "version",
                    "config",
                    "id",
                    "0",
                ]
            ),
            inner,
        )
    ),
)


@settings(max_examples=examples(60))
@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_in_a_node_raise(data: bytes) -> None:
    znodes.decode_broker(BrokerId(1), data, 1)
    znodes.decode_topic("t", data, 0)
    znodes.decode_state(PARTITION, data)
    znodes.decode_controller(data)
    znodes.decode_controller_epoch(data)
    znodes.decode_cluster_id(data)
    znodes.decode_config("topics/t", data)
    znodes.decode_config_change(data)
    znodes.decode_producer_id_block(data)
    znodes.decode_reassignment(data)
