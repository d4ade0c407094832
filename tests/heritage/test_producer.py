"""The Producer, with a static list of brokers (the kit's) and with those that it follows in ZooKeeper."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from threading import Event, Thread
from typing import Any

import pytest

from examples.heritage.config import ProducerConfig
from examples.heritage.errors import BrokerUnavailable, ConfigError, HeritageError
from examples.heritage.partitions import CallbackHandler, Encoder, Partitioner, ProducerData
from examples.heritage.producer import Producer
from examples.heritage.simple_consumer import FetchRequest
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.fetch import FetchPartition, FetchTopic
from sordini.protocol.messages.fetch import FetchRequest as WireFetchRequest
from sordini.protocol.records.batch import read_header
from sordini.testing import Kafka
from tests.compat.groups.waiting import eventually
from tests.heritage.documented_site import DocumentedSite
from tests.support.wire_client import Client


class Recorder(CallbackHandler):
    """Notes what is sent, after each message has got an exclamation mark, and what failed."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.failures: list[tuple[list[bytes], str]] = []

    def before_sending_data(self, events: Sequence[ProducerData]) -> Sequence[ProducerData]:
        events = [one._replace(messages=[message + b"!" for message in one.messages]) for one in events]
        self.batches.append(messages_of(events))
        return events

    def on_failure(self, events: Sequence[ProducerData], error: Exception) -> None:
        self.failures.append((messages_of(events), str(error)))


def messages_of(events: Sequence[ProducerData]) -> list[bytes]:
    return [message for one in events for message in one.messages]


def listed(kafka: Kafka, plugins: dict[str, Any] | None = None, **properties: object) -> Producer:
    given = {"broker.list": kafka.bootstrap_servers, "request.required.acks": -1}
    given |= {**{key.replace("_", "."): one for key, one in properties.items()}}
    return Producer(ProducerConfig.of(given), **(plugins or {}))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def in_partitions(site: DocumentedSite, topic: str, count: int) -> dict[int, list[str]]:
    """What is in the partitions of a topic, all of them led by broker 1."""
    consumer = site.simple_consumer()
    found = {
        number: [(one.value or b"").decode() for one in consumer.fetch(FetchRequest(topic, number, 0))]
        for number in range(count)
    }
    consumer.close()
    return found


# With zk.connect.


def test_messages_of_one_key_are_in_the_partition_of_its_java_hash_in_their_order(site: DocumentedSite) -> None:
    topic = site.topic([1] * 7)
    producer = site.producer()
    producer.send(ProducerData(topic, "member-17", [b"a", b"b"]))
    producer.send([ProducerData(topic, "a", [b"c"]), ProducerData(topic, "member-17", [b"d"])])
    producer.close()
    assert {number: found for number, found in in_partitions(site, topic, 7).items() if found} == {
        5: ["a", "b", "d"],
        6: ["c"],
    }


def test_without_a_key_each_request_goes_to_a_partition_at_random(site: DocumentedSite) -> None:
    topic = site.topic([1] * 4)
    producer = site.producer()
    for number in range(32):
        producer.send(ProducerData(topic, None, [b"%d" % number, b"with it"]))
    producer.close()
    found = in_partitions(site, topic, 4)
    assert sum(map(len, found.values())) == 64
    assert len([one for one in found.values() if one]) > 1
    for texts in found.values():
        assert texts[1::2] == ["with it"] * (len(texts) // 2), "messages that are sent together stay together"


def test_a_user_s_partitioner_and_encoder_take_the_place_of_the_defaults(site: DocumentedSite) -> None:
    class ByLength(Partitioner):
        def partition(self, key: str, num_partitions: int) -> int:
            return len(key) % num_partitions

    class Words(Encoder):
        def to_message(self, data: list[str]) -> bytes:
            return " ".join(data).encode()

    topic = site.topic([1, 1, 1])
    config = ProducerConfig.of({"zk.connect": site.tree.connect})
    producer = Producer(config, partitioner=ByLength(), encoder=Words())
    producer.send(ProducerData(topic, "four", [["an", "order"], ["another"]]))
    producer.close()
    assert in_partitions(site, topic, 3) == {0: [], 1: ["an order", "another"], 2: []}


def test_a_partitioner_that_chooses_no_partition_is_an_error(site: DocumentedSite) -> None:
    class Wrong(Partitioner):
        def partition(self, key: object, num_partitions: int) -> int:
            return num_partitions

    topic = site.topic([1, 1])
    producer = site.producer(Wrong())
    with pytest.raises(ConfigError, match=f"the partitioner chose 2 of the 2 partitions of {topic}"):
        producer.send(ProducerData(topic, "key", [b"x"]))
    producer.close()


def test_a_topic_that_is_not_there_is_an_error_and_is_found_when_it_comes(site: DocumentedSite) -> None:
    producer = site.producer(message_send_max_retries=0)
    with pytest.raises(HeritageError, match="there is no topic 'comes-later' in ZooKeeper: create it first"):
        producer.send(ProducerData("comes-later", None, [b"x"]))
    site.topic([1], name="comes-later")
    producer.send(ProducerData("comes-later", None, [b"y"]))
    producer.close()
    assert in_partitions(site, "comes-later", 1) == {0: ["y"]}


def test_leaders_and_new_partitions_are_followed_by_watches(site: DocumentedSite) -> None:
    counts: list[int] = []

    class Last(Partitioner):
        def partition(self, key: object, num_partitions: int) -> int:
            counts.append(num_partitions)
            return num_partitions - 1

    topic = "followed"
    site.cluster.create(topic, [[1, 2]])
    producer = site.producer(Last(), message_send_max_retries=0, request_required_acks=-1)
    producer.send(ProducerData(topic, "key", [b"to 1"]))
    site.move_leader(topic, [2, 1])

    def sent(message: bytes) -> bool:
        """Whether it is sent at the first attempt: a watch may still be on its way."""
        try:
            producer.send(ProducerData(topic, "key", [message]))
        except HeritageError:
            return False
        return True

    eventually(lambda: sent(b"to 2"), "the new leader is known")
    site.cluster.add_partitions(topic, [[2, 1]])
    eventually(lambda: sent(b"more") and counts[-1] == 2, "the new partition is known")
    producer.close()
    consumer = site.simple_consumer(2)
    assert [one.value for one in consumer.fetch(FetchRequest(topic, 0, 0))][:2] == [b"to 1", b"to 2"]
    consumer.close()


@pytest.mark.long
def test_a_request_to_a_leader_that_has_died_is_sent_again_to_the_next_one(site: DocumentedSite) -> None:
    topic = "leader-died"
    site.cluster.create(topic, [[2, 1]])
    producer = site.producer(message_send_max_retries=200, request_required_acks=-1)
    producer.send(ProducerData(topic, None, [b"one"]))
    site.cluster.kill(2)
    producer.send(ProducerData(topic, None, [b"two"]))
    producer.close()
    consumer = site.simple_consumer(1)
    assert [one.value for one in consumer.fetch(FetchRequest(topic, 0, 0))] == [b"one", b"two"]
    consumer.close()
    site.cluster.restart(2)
    site.cluster.wait_for_full_isr([(topic, 0)])


# With broker.list.


def test_with_a_list_each_request_goes_to_a_random_partition_whatever_its_key(kafka: Kafka) -> None:
    orders = kafka.topic(partitions=4)
    producer = listed(kafka)
    for _ in range(32):
        producer.send(ProducerData(orders, "one key", [b"x"]))
    producer.close()
    counts = [len(kafka.records(orders, partition)) for partition in range(4)]
    assert sum(counts) == 32
    assert len([count for count in counts if count]) > 1
    with pytest.raises(ConfigError, match="each request goes to a random partition: leave the partitioner out"):
        listed(kafka, {"partitioner": Partitioner()})


def test_with_a_list_a_dead_broker_is_a_clear_error(kafka: Kafka, recorder: Recorder) -> None:
    orders = kafka.topic(partitions=2, replicas=1)
    leaders = [kafka.leader(orders, number) for number in range(2)]
    assert sorted(leaders) == [1, 2]
    producer = listed(kafka, {"callback_handler": recorder})
    kafka.brokers[1].kill()
    outcomes: dict[int, str] = {}
    for number in itertools.count():
        assert number < 200, f"only one partition was chosen in {number} requests: {outcomes}"
        try:
            producer.send(ProducerData(orders, None, [b"x"]))
            outcomes[1] = "sent"
        except BrokerUnavailable as error:
            outcomes[2] = str(error)
        if len(outcomes) == 2:
            break
    producer.close()
    assert outcomes[1] == "sent"
    partition = f"{orders}-{leaders.index(2)}"
    assert f"no broker leads {partition} now" in outcomes[2] or kafka.bootstrap_servers.split(",")[1] in outcomes[2]
    assert recorder.failures[0] == ([b"x!"], outcomes[2])


def test_a_list_of_which_no_broker_answers_is_a_clear_error() -> None:
    producer = Producer(ProducerConfig.of({"broker.list": "127.0.0.1:1"}))
    with pytest.raises(BrokerUnavailable, match=r"broker at 127\.0\.0\.1:1: .*refused"):
        producer.send(ProducerData("orders", None, [b"x"]))
    producer.close()
    with pytest.raises(ConfigError, match=r"broker\.list is 'nowhere:x': 'nowhere:x' is not HOST:PORT"):
        Producer(ProducerConfig.of({"broker.list": "nowhere:x"}))


def test_the_hooks_get_what_is_sent_and_what_was_refused(kafka: Kafka, recorder: Recorder) -> None:
    orders = kafka.topic()
    producer = listed(kafka, {"callback_handler": recorder})
    producer.send(ProducerData(orders, None, [b"a", b"b"]))
    kafka.assert_produced(orders, ["a!", "b!"])
    with (
        kafka.on("Produce", topic=orders, times=1).fail("MESSAGE_TOO_LARGE"),
        pytest.raises(HeritageError, match=f"messages for {orders}-0: MESSAGE_TOO_LARGE"),
    ):
        producer.send(ProducerData(orders, None, [b"c"]))
    producer.close()
    assert recorder.batches == [[b"a!", b"b!"], [b"c!"]]
    assert recorder.failures == [([b"c!"], f"messages for {orders}-0: MESSAGE_TOO_LARGE")]


def test_without_an_encoder_messages_are_bytes(kafka: Kafka) -> None:
    producer = listed(kafka)
    with pytest.raises(ConfigError, match="a message is str; without an encoder messages are bytes"):
        producer.send(ProducerData(kafka.topic(), None, ["text"]))
    producer.close()


def test_messages_are_compressed_by_codec_and_topics(kafka: Kafka) -> None:
    chosen, other = kafka.topic(), kafka.topic()
    producer = listed(kafka, compression_codec="gzip", compressed_topics=f"nothing, {chosen}")
    producer.send([ProducerData(chosen, None, [b"a" * 500]), ProducerData(other, None, [b"b" * 500])])
    producer.close()
    kafka.assert_produced(chosen, ["a" * 500])
    kafka.assert_produced(other, ["b" * 500])
    assert [codec_of(kafka, topic) for topic in (chosen, other)] == [1, 0]


def codec_of(kafka: Kafka, topic: str) -> int:
    """The codec of the first batch in a topic's log."""
    host, _, port = kafka.bootstrap_servers.split(",")[kafka.leader(topic) - 1].partition(":")
    row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000)
    with Client(host, int(port)) as client:
        request = WireFetchRequest(topics=[FetchTopic(topic=topic, partitions=[row])])
        answer = client.ask(ApiKey.FETCH, 11, request)
    return read_header(answer.responses[0].partitions[0].records).codec


# Asynchronous.


def test_an_asynchronous_producer_sends_when_batch_size_messages_wait(kafka: Kafka, recorder: Recorder) -> None:
    orders = kafka.topic()
    an_hour_ms = 3_600_000
    plugins = {"callback_handler": recorder}
    producer = listed(kafka, plugins, producer_type="async", batch_size=3, queue_time=an_hour_ms)
    producer.send([ProducerData(orders, None, [b"%d" % number for number in range(4)])])
    for number in range(4, 7):
        producer.send(ProducerData(orders, None, [b"%d" % number]))
    eventually(lambda: len(recorder.batches) == 2, "two batches are sent")
    assert recorder.batches == [[b"0!", b"1!", b"2!"], [b"3!", b"4!", b"5!"]]
    producer.close()
    assert recorder.batches[2:] == [[b"6!"]], "the rest is sent when it is closed"
    kafka.assert_produced(orders, [f"{number}!" for number in range(7)])


def test_an_asynchronous_producer_sends_when_the_first_message_has_waited_for_queue_time(
    kafka: Kafka, recorder: Recorder
) -> None:
    orders = kafka.topic()
    plugins = {"callback_handler": recorder}
    producer = listed(kafka, plugins, producer_type="async", batch_size=1_000, queue_time=50)
    producer.send(ProducerData(orders, None, [b"a", b"b"]))
    eventually(lambda: sum(map(len, recorder.batches)) == 2, "what waits is sent")
    producer.close()
    kafka.assert_produced(orders, ["a!", "b!"])


def test_an_asynchronous_producer_goes_on_after_a_failure_of_which_the_hook_is_informed(
    kafka: Kafka, recorder: Recorder
) -> None:
    orders = kafka.topic()
    plugins = {"callback_handler": recorder}
    producer = listed(kafka, plugins, producer_type="async", batch_size=1)
    with kafka.on("Produce", topic=orders, times=1).fail("MESSAGE_TOO_LARGE"):
        producer.send(ProducerData(orders, None, [b"a"]))
        eventually(lambda: len(recorder.failures) == 1, "the hook is called")
    producer.send(ProducerData(orders, None, [b"b"]))
    producer.close()
    assert recorder.failures == [([b"a!"], f"messages for {orders}-0: MESSAGE_TOO_LARGE")]
    kafka.assert_produced(orders, ["b!"])


def test_send_waits_for_room_in_a_full_queue(kafka: Kafka) -> None:
    orders = kafka.topic()
    is_sending, may_send = Event(), Event()

    class Slow(CallbackHandler):
        def before_sending_data(self, events: Sequence[ProducerData]) -> Sequence[ProducerData]:
            is_sending.set()
            assert may_send.wait(20)
            return events

    producer = listed(kafka, {"callback_handler": Slow()}, producer_type="async", batch_size=1, queue_size=2)
    producer.send(ProducerData(orders, None, [b"0"]))
    assert is_sending.wait(20)
    producer.send(ProducerData(orders, None, [b"1", b"2"]))
    blocked = Thread(target=lambda: producer.send(ProducerData(orders, None, [b"3"])))
    blocked.start()
    blocked.join(0.1)
    assert blocked.is_alive(), "the queue holds two messages, and takes no third"
    may_send.set()
    blocked.join(20)
    assert not blocked.is_alive()
    producer.close()
    kafka.assert_produced(orders, ["0", "1", "2", "3"])
