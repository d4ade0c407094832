"""The same raw conversation with Apache Kafka, 3.9.1 or 4.4.0, and with Sordini: the answers must be the same."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.compat.situations.__main__ import pages
from tests.compat.situations.catalogue import SITUATIONS
from tests.compat.situations.compare import compare
from tests.compat.situations.definitions import Definitions
from tests.compat.situations.difference import Difference
from tests.compat.situations.differences import DIFFERENCES, allowed_in
from tests.compat.situations.kraft import KRaftProcess
from tests.compat.situations.registry import KRAFT, Situation, normalise
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker
from tests.outside.java import ApacheKafkaProcess
from tests.outside.needs import kafka_clients_jar, kafka_jars
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.outside.versions import APACHE_KAFKA, NEWEST_APACHE_KAFKA

# The records are from 2023 so that their bytes are always the same: no broker may find them too old.
# Group members may fall silent for shorter than usual, and groups are small, so that both limits are soon reached.
SETTINGS: dict[str, object] = {
    "broker.id": 0,
    "log.retention.ms": -1,
    "group.initial.rebalance.delay.ms": 0,
    "group.max.size": 4,
    "group.min.session.timeout.ms": 100,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
}
# A transaction that takes too long is aborted at once, as by ours, and not up to ten seconds later.
THEIR_SETTINGS: dict[str, object] = {**SETTINGS, "transaction.abort.timed.out.transaction.cleanup.interval.ms": 50}
# Nobody is killed here, so that a busy machine may take longer than the usual session in tests.
ZOOKEEPER_SETTINGS: dict[str, object] = {**THEIR_SETTINGS, "zookeeper.session.timeout.ms": 18_000}
# Apache Kafka unpacks every compressed batch that it is sent; ours does so where it is configured.
OUR_SETTINGS: dict[str, object] = {**SETTINGS, "sordini.validate.compressed": "true"}


@pytest.fixture(scope="module")
def definitions() -> Definitions:
    coordinator = kafka_jars(APACHE_KAFKA) / f"kafka-group-coordinator-{APACHE_KAFKA}.jar"
    return Definitions(kafka_clients_jar(APACHE_KAFKA), coordinator)


def _broker(process: BrokerProcess, definitions: Definitions) -> Broker:
    """The broker, once it knows itself as a member of its cluster."""
    broker = Broker("127.0.0.1", process.port, definitions, prefix=f"run{uuid4().hex[:8]}")
    until(lambda: broker.ask("Metadata", 9, topics=[]), lambda seen: isinstance(seen, dict) and bool(seen["brokers"]))
    return broker


@pytest.fixture(scope="module")
def apache(zookeeper: str, definitions: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory = tmp_path_factory.mktemp("situations-apache")
    with ApacheKafkaProcess(directory, f"{zookeeper}/situations-{uuid4().hex[:8]}", ZOOKEEPER_SETTINGS) as process:
        broker = _broker(process, definitions)
        yield broker
        broker.close()


@pytest.fixture(scope="module")
def newest_definitions() -> Definitions:
    return Definitions(kafka_clients_jar(NEWEST_APACHE_KAFKA))


@pytest.fixture(scope="module")
def kraft(newest_definitions: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with KRaftProcess(tmp_path_factory.mktemp("situations-kraft"), THEIR_SETTINGS, NEWEST_APACHE_KAFKA) as process:
        broker = _broker(process, newest_definitions)
        yield broker
        broker.close()


@pytest.fixture(scope="module")
def our_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SordiniProcess]:
    with SordiniProcess(tmp_path_factory.mktemp("situations-sordini"), OUR_SETTINGS) as process:
        yield process


@pytest.fixture(scope="module")
def sordini(our_process: SordiniProcess, definitions: Definitions) -> Iterator[Broker]:
    broker = _broker(our_process, definitions)
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def newer_sordini(our_process: SordiniProcess, newest_definitions: Definitions) -> Iterator[Broker]:
    """The same broker, spoken to with the newest definitions."""
    broker = _broker(our_process, newest_definitions)
    yield broker
    broker.close()


# A second Apache Kafka, for those that a plain run leaves out.
PLAYED = [pytest.param(one, marks=pytest.mark.slow) if one.judge == KRAFT else one for one in SITUATIONS]


@pytest.mark.parametrize("situation", PLAYED, ids=[one.sentence for one in SITUATIONS])
def test_the_same_answer_as_apache_kafka_when(situation: Situation, request: pytest.FixtureRequest) -> None:
    names = ("kraft", "newer_sordini") if situation.judge == KRAFT else ("apache", "sordini")
    judge, sordini = (request.getfixturevalue(name) for name in names)
    theirs = normalise(situation.play(judge), judge.prefix)
    ours = normalise(situation.play(sordini), sordini.prefix)
    complaints = compare(theirs, ours, allowed_in(situation.sentence))
    assert not complaints, "\n".join(["", *complaints[:40]])


def test_every_justified_difference_names_a_situation() -> None:
    named = {id(one) for situation in SITUATIONS for one in allowed_in(situation.sentence)}
    assert named == {id(one) for one in DIFFERENCES}
    assert all(len(one.why) > 20 for one in DIFFERENCES)


def test_no_two_situations_have_one_name() -> None:
    sentences = [one.sentence for one in SITUATIONS]
    assert len(sentences) == len(set(sentences)) >= 350


def test_at_least_80_situations_are_of_transactions() -> None:
    assert sum(one.family.startswith("transactions_") for one in SITUATIONS) >= 80


def test_producer_ids_are_numbered_in_the_order_of_their_first_appearance() -> None:
    seen = [{"producer_id": 4_000}, {"producer_id": 17}, {"producer_id": 4_000}, {"producer_id": -1}]
    assert [one["producer_id"] for one in normalise(seen, "run0")] == ["p1", "p2", "p1", -1]


def test_members_are_numbered_in_the_order_of_their_first_appearance() -> None:
    first, second = f"a-{uuid4()}", f"a-{uuid4()}"
    seen = {"leader": second, "members": [{"member_id": first}, {"member_id": second}], "other": "run0-a"}
    wanted = {"leader": "a-m1", "members": [{"member_id": "a-m2"}, {"member_id": "a-m1"}], "other": "P-a"}
    assert normalise(seen, "run0") == wanted


def test_a_difference_without_leave_is_a_complaint_and_so_is_an_unused_leave() -> None:
    theirs, ours = {"a": [1, 2], "b": "x"}, {"a": [1, 3], "b": "x"}
    leave = Difference("a sentence", "a/1", 3, "because")
    assert compare(theirs, ours, []) == ["a/1: Apache Kafka says 2, Sordini 3"]
    assert compare(theirs, ours, [leave]) == []
    assert compare(theirs, ours, [leave._replace(ours=4)])[0] == "a/1: Apache Kafka says 2, Sordini 3"
    assert compare(theirs, theirs, [leave]) == ["nothing differs any more at 'a/1': strike it off the list"]


def test_absent_leaves_and_longer_lists_differ() -> None:
    assert len(compare({"a": 1}, {}, [])) == 2
    assert compare({"a": []}, {"a": [1]}, [])[0].startswith("a:")


def test_definitions_encode_and_decode_alike() -> None:
    definitions = Definitions(kafka_clients_jar(APACHE_KAFKA))
    values = {"topics": [{"topic_id": bytes(16), "name": None}], "allow_auto_topic_creation": True}
    for version in (9, 12):
        if version == 9:
            values["topics"][0]["name"] = "t"  # type: ignore[index]
        body = definitions.encode("MetadataRequest", version, values)
        assert definitions.decode("MetadataRequest", version, body)["allow_auto_topic_creation"] is True


def test_only_an_array_that_may_be_null_says_so_and_not_its_elements() -> None:
    definitions = Definitions(kafka_clients_jar(APACHE_KAFKA))
    assert definitions.encode("MetadataRequest", 1, {"topics": [{"name": "t"}]}) == b"\0\0\0\1\0\1t"
    assert definitions.encode("MetadataRequest", 1, {"topics": None}) == b"\xff\xff\xff\xff"


def test_the_pages_list_these_situations_and_differences() -> None:
    for page, text in pages().items():
        assert page.read_text(encoding="utf-8") == text, "write it again: python -m tests.compat.situations"
