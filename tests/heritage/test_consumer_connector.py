"""ConsumerConnector: streams, the group's nodes, balance, offsets."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread

import pytest
from kazoo.client import KazooClient

from examples.heritage.assignment import TopicFilter
from examples.heritage.config import ConsumerConfig
from examples.heritage.consumer_connector import ConsumerConnector
from examples.heritage.errors import (
    ConfigError,
    ConsumerRebalanceFailed,
    ConsumerTimeout,
    HeritageError,
    NoZooKeeper,
)
from sordini.protocol.types import TopicPartition
from sordini.testing import Kafka
from tests.compat.groups.waiting import eventually
from tests.heritage.documented_site import DocumentedSite, Reader, take, texts


def numbers(connector: ConsumerConnector) -> list[int]:
    return [partition.partition for partition in connector.owned_partitions]


def test_a_partition_feeds_one_stream_in_its_order_and_streams_share_them(site: DocumentedSite) -> None:
    topic = site.topic([1, 2, 1, 2])
    site.send(topic, [0, 1, 2, 3] * 5)
    streams = site.connector().create_message_streams({topic: 2})[topic]
    for stream, wanted in zip(streams, ([0, 1], [2, 3]), strict=True):
        messages = [next(stream) for _ in range(10)]
        assert {one.partition for one in messages} == set(wanted)
        for number in wanted:
            of_it = [one for one in messages if one.partition == number]
            assert [one.offset for one in of_it] == list(range(5))
            assert texts(of_it) == [f"{number}:{4 * index + number}" for index in range(5)]


def test_an_iterator_blocks_until_a_message_comes_and_ends_when_the_connector_shuts_down(site: DocumentedSite) -> None:
    topic = site.topic([1])
    connector = site.connector(consumer_timeout_ms=-1)
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    reader = Reader(stream)
    site.send(topic, [0, 0])
    assert reader.wait(2) == ["0:0", "0:1"]
    connector.shutdown()
    assert reader.join() == ["0:0", "0:1"]
    assert list(stream) == [], "it stays at its end"


def test_an_iterator_that_waits_for_longer_than_consumer_timeout_ms_raises(site: DocumentedSite) -> None:
    topic = site.topic([1])
    (stream,) = site.connector(consumer_timeout_ms=50).create_message_streams({topic: 1})[topic]
    with pytest.raises(ConsumerTimeout, match=r"no message within 0\.05 s"):
        next(stream)
    site.send(topic, [0])
    eventually(lambda: next_or_none(stream) == "0:0", "it goes on")


def next_or_none(stream: object) -> str | None:
    try:
        return texts([next(stream)])[0]
    except ConsumerTimeout:
        return None


def test_a_group_s_nodes_are_apache_kafka_s(site: DocumentedSite) -> None:
    topic = site.topic([1, 1, 1])
    site.send(topic, [0, 1, 1])
    connector = site.connector(auto_commit_enable=False)
    streams = connector.create_message_streams({topic: 2})[topic]
    assert connector.consumer_id.startswith(f"{site.group}_")
    (name, text), *others = site.nodes("ids").items()
    assert name == connector.consumer_id
    assert others == []
    assert text == json.dumps(json.loads(text), separators=(",", ":"))
    value = json.loads(text)
    assert int(value.pop("timestamp")) > 1_700_000_000_000
    assert value == {"version": 1, "subscription": {topic: 2}, "pattern": "static"}
    assert site.nodes(f"owners/{topic}") == {"0": f"{name}-0", "1": f"{name}-0", "2": f"{name}-1"}
    assert site.nodes(f"offsets/{topic}") == {}
    take(streams[0], 3)
    connector.commit_offsets()
    assert site.nodes(f"offsets/{topic}") == {"0": "1", "1": "2", "2": "0"}, "they are the next ones"
    connector.shutdown()
    assert site.nodes("ids") == {}
    assert site.nodes(f"owners/{topic}") == {}


def test_members_divide_the_partitions_and_those_of_one_that_leaves_are_taken_over(site: DocumentedSite) -> None:
    topic = site.topic([1, 1, 1, 1])
    first = site.connector(consumer_id="a", consumer_timeout_ms=-1)
    reader = Reader(first.create_message_streams({topic: 1})[topic][0])
    sent = site.send(topic, [0, 1, 2, 3] * 10)
    reader.wait(40)
    second = site.connector(consumer_id="b", consumer_timeout_ms=-1)
    other = Reader(second.create_message_streams({topic: 1})[topic][0])
    eventually(lambda: (numbers(first), numbers(second)) == ([0, 1], [2, 3]), "both have their share")
    sent += site.send(topic, [0, 1, 2, 3] * 10, " to both")
    assert sorted(other.wait(20)) == sorted(one for one in sent[40:] if one[0] in "23")
    second.shutdown()
    eventually(lambda: numbers(first) == [0, 1, 2, 3], "the first has all again")
    sent += site.send(topic, [0, 1, 2, 3] * 10, " to one")
    reader.wait(100)
    first.shutdown()
    assert sorted(reader.join() + other.join()) == sorted(sent), "nothing is lost, nothing comes twice"


def test_what_was_consumed_is_committed_at_shutdown_and_the_next_member_goes_on_there(site: DocumentedSite) -> None:
    topic = site.topic([1])
    site.send(topic, [0] * 5)
    connector = site.connector(auto_commit_interval_ms=3_600_000)
    take(connector.create_message_streams({topic: 1})[topic][0], 3)
    connector.shutdown()
    assert site.nodes(f"offsets/{topic}") == {"0": "3"}
    (stream,) = site.connector().create_message_streams({topic: 1})[topic]
    assert take(stream, 2) == ["0:3", "0:4"]


def test_offsets_are_committed_regularly(site: DocumentedSite) -> None:
    topic = site.topic([1])
    site.send(topic, [0] * 5)
    (stream,) = site.connector(auto_commit_interval_ms=20).create_message_streams({topic: 1})[topic]
    take(stream, 4)
    eventually(lambda: site.nodes(f"offsets/{topic}") == {"0": "4"}, "the offset is committed")


def test_without_auto_commit_nothing_is_committed_by_itself(site: DocumentedSite) -> None:
    topic = site.topic([1])
    site.send(topic, [0] * 5)
    connector = site.connector(auto_commit_enable=False)
    take(connector.create_message_streams({topic: 1})[topic][0], 3)
    connector.shutdown()
    assert site.nodes(f"offsets/{topic}") == {}


def test_a_white_list_reads_topics_that_match_and_those_that_come_later(site: DocumentedSite) -> None:
    for name in ("white-1", "black-1"):
        site.topic([1], name=name)
    (stream,) = site.connector().create_message_streams_by_filter(TopicFilter("white-.*,black-2"))
    value = json.loads(next(iter(site.nodes("ids").values())))
    assert (value["pattern"], value["subscription"]) == ("white_list", {"white-.*|black-2": 1})
    site.send("white-1", [0])
    assert take(stream, 1) == ["0:0"]
    site.topic([2], name="white-2")
    site.topic([2], name="black-3")
    site.send("black-3", [0], " not allowed")
    site.send("white-2", [0], " later")
    assert take(stream, 1) == ["0:0 later"]


def test_a_black_list_reads_all_other_topics_in_every_stream(site: DocumentedSite) -> None:
    one, other = site.topic([1, 1]), site.topic([1, 1])
    others = [name for name in site.tree.children("/brokers/topics") if name not in (one, other)]
    connector = site.connector()
    streams = connector.create_message_streams_by_filter(TopicFilter("|".join(others), is_white=False), 2)
    assert connector.owned_partitions == [
        TopicPartition(name, number) for name in sorted((one, other)) for number in (0, 1)
    ]
    for topic in (one, other):
        site.send(topic, [0, 1], f" {topic}")
    for number, stream in enumerate(streams):
        expected = [f"{number}:{number} {topic}" for topic in (one, other)]
        assert sorted(take(stream, 2)) == sorted(expected), "a stream iterates over several topics"


def test_partitions_are_sorted_by_number_or_as_the_documents_write_by_leader(site: DocumentedSite) -> None:
    topic = site.topic([2, 1, 2, 1])
    for order, wanted in (("number", [[0, 1], [2, 3]]), ("document", [[1, 3], [0, 2]])):
        members = [site.connector(consumer_id=f"{order}-{name}", partition_order=order) for name in "ab"]
        for member in members:
            member.create_message_streams({topic: 1})
        eventually(lambda ms=members, wanted=wanted: [numbers(m) for m in ms] == wanted, f"shares by {order}")
        for member in members:
            member.shutdown()


def test_new_partitions_of_a_topic_are_balanced(site: DocumentedSite) -> None:
    topic = site.topic([1])
    connector = site.connector()
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    site.cluster.add_partitions(topic, [[2]])
    eventually(lambda: numbers(connector) == [0, 1], "the new partition is owned")
    site.send(topic, [1])
    assert take(stream, 1) == ["1:0"]


def test_a_topic_may_come_after_its_subscription(site: DocumentedSite) -> None:
    connector = site.connector()
    (stream,) = connector.create_message_streams({"subscribed-before": 1})["subscribed-before"]
    assert connector.owned_partitions == []
    site.topic([1], name="subscribed-before")
    site.send("subscribed-before", [0])
    assert take(stream, 1) == ["0:0"]


def test_a_partition_whose_leader_moves_is_fetched_from_the_new_one(site: DocumentedSite) -> None:
    topic = "fetched-from-another"
    site.cluster.create(topic, [[1, 2]])
    (stream,) = site.connector().create_message_streams({topic: 1})[topic]
    site.send(topic, [0])
    assert take(stream, 1) == ["0:0"]
    site.move_leader(topic, [2, 1])
    site.send(topic, [0], " after it")
    assert take(stream, 1) == ["0:0 after it"]


def test_brokers_that_come_and_go_make_the_group_balance(site: DocumentedSite) -> None:
    topic = site.topic([1])
    connector = site.connector()
    connector.create_message_streams({topic: 1})
    owner = f"/consumers/{site.group}/owners/{topic}/0"
    before = site.created(owner)
    site.tree.create("/brokers/ids/77", {}, ephemeral=True)
    eventually(lambda: site.created(owner) > before, "the group balances when a broker comes")
    before = site.created(owner)
    site.tree.delete("/brokers/ids/77")
    eventually(lambda: site.created(owner) > before, "and when it goes")


@pytest.mark.parametrize("storage", ["zookeeper", pytest.param("kafka", marks=pytest.mark.long)])
def test_an_offset_out_of_range_is_reset_or_raised_as_the_properties_say(site: DocumentedSite, storage: str) -> None:
    topic = site.topic([1])
    site.send(topic, [0, 0])
    for reset, expected in (("smallest", "0:0"), ("largest", "0:0 new"), ("error", None)):
        site.tree.put(f"/consumers/{site.group}/offsets/{topic}/0", b"77")
        connector = site.connector(auto_offset_reset=reset, auto_commit_enable=False, offsets_storage=storage)
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        if expected is None:
            with pytest.raises(HeritageError, match="from offset 77 on: OFFSET_OUT_OF_RANGE"):
                next(stream)
        else:
            if reset == "largest":
                owned = connector._owned[TopicPartition(topic, 0)]
                eventually(lambda one=owned: one.fetch_offset == 2, "the end is found")
                site.send(topic, [0], " new")
            assert take(stream, 1) == [expected]
        connector.shutdown()


def test_a_message_beyond_the_largest_buffer_is_raised_by_the_iterator(site: DocumentedSite) -> None:
    topic = site.topic([1])
    site.send(topic, [0], "x" * 20_000)
    properties = {"fetch_message_max_bytes": 1_000, "fetch_buffer_max_bytes": 10_000}
    (stream,) = site.connector(**properties).create_message_streams({topic: 1})[topic]
    with pytest.raises(HeritageError, match=f"{topic}-0 has a message at offset 0 that is larger than"):
        next(stream)
    (whole,) = site.connector(group_id=f"{site.group}-2", fetch_message_max_bytes=1_000).create_message_streams(
        {topic: 1}
    )[topic]
    assert take(whole, 1) == ["0:0" + "x" * 20_000], "the buffer doubles"


def test_a_member_whose_partitions_others_own_to_the_last_attempt_fails(site: DocumentedSite) -> None:
    topic = site.topic([1, 1])
    other = KazooClient(site.tree.connect)
    other.start()
    owner = f"/consumers/{site.group}/owners/{topic}/1"
    other.create(owner, b"another-0", ephemeral=True, makepath=True)
    connector = site.connector(rebalance_max_retries=2, rebalance_backoff_ms=10)
    with pytest.raises(ConsumerRebalanceFailed, match="others owned its partitions at 2 attempts"):
        connector.create_message_streams({topic: 1})
    assert site.nodes(f"owners/{topic}") == {"1": "another-0"}, "it owns all or none"
    waiting = site.connector(rebalance_backoff_ms=20_000)
    starting = Thread(target=lambda: waiting.create_message_streams({topic: 1}), daemon=True)
    starting.start()
    eventually(lambda: f"{waiting.consumer_id}-0" in site.nodes(f"owners/{topic}").values(), "it claims")
    other.delete(owner)
    starting.join(10)
    assert not starting.is_alive(), "it tries again as soon as the other has released, not after the backoff"
    assert numbers(waiting) == [0, 1]
    other.stop()
    other.close()


def test_streams_are_created_once_and_at_least_one(site: DocumentedSite) -> None:
    topic = site.topic([1])
    connector = site.connector()
    with pytest.raises(ConfigError, match=r"0 streams for .*: allowed is one call, for one or more"):
        connector.create_message_streams({topic: 0})
    with pytest.raises(ConfigError, match="0 streams for a filter"):
        connector.create_message_streams_by_filter(TopicFilter(".*"), 0)
    connector.create_message_streams({topic: 1})
    with pytest.raises(ConfigError, match="allowed is one call"):
        connector.create_message_streams({topic: 1})


def config(connect: str, **others: object) -> ConsumerConfig:
    return ConsumerConfig.of({"group.id": "g", "zookeeper.connect": connect, **others})


def test_with_the_embedded_store_one_error_says_what_is_missing_and_what_to_use(kafka: Kafka, tmp_path: Path) -> None:
    needed = "coordinate through ZooKeeper, which brokers on the embedded store do not have"
    for connect in ("", f"embedded:{tmp_path}"):
        with pytest.raises(NoZooKeeper, match=f"zookeeper.connect is '{connect}': it names no ZooKeeper: .*{needed}"):
            ConsumerConnector(config(connect))
    with pytest.raises(NoZooKeeper, match=r"'host:x' is not HOST:PORT of a ZooKeeper: .*aiokafka"):
        ConsumerConnector(config("host:x"))
    # The address of a broker, which is what a user of today's clients would give.
    broker = kafka.bootstrap_servers.partition(",")[0]
    connector = ConsumerConnector(config(broker, **{"zookeeper.session.timeout.ms": 300}))
    with pytest.raises(NoZooKeeper, match=f"no ZooKeeper at {broker} answered within 300 ms: .*{needed}"):
        connector.create_message_streams({"orders": 1})
