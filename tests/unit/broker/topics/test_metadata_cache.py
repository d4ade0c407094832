"""The metadata cache and its cached responses."""

from __future__ import annotations

from sordini.broker.topics import metadata_cache
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, BrokerId
from tests.support.unit_broker import ME, OTHER, known_broker, led, topic_id_of

OLD_ID = topic_id_of("old")
NEW_ID = topic_id_of("new")


def a_cache() -> MetadataCache:
    cache = MetadataCache("a-cluster")
    cache.set_partition("orders", OLD_ID, 0, led())
    cache.set_partition("orders", OLD_ID, 1, led())
    return cache


def test_a_topic_that_may_not_have_been_received_yet_is_not_reported_as_unknown() -> None:
    cache = MetadataCache("a-cluster")
    assert cache.unknown_topic_code("orders") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nothing is expected"
    cache.awaits_first_topics = True
    assert cache.unknown_topic_code("orders") is ErrorCode.LEADER_NOT_AVAILABLE
    assert cache.unknown_topic_code("or/ders") is ErrorCode.INVALID_TOPIC_EXCEPTION, "it cannot be there either way"
    cache.set_brokers(ME, [])
    cache.changed()
    assert cache.unknown_topic_code("orders") is ErrorCode.LEADER_NOT_AVAILABLE, (
        "a new controller sends the brokers first"
    )
    cache.set_partition("payments", OLD_ID, 0, led())
    assert cache.unknown_topic_code("orders") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "all topics are received at once"


def test_a_partition_may_exist_until_the_first_topics_are_received() -> None:
    cache = MetadataCache("a-cluster")
    assert not cache.may_exist("orders", 0)
    cache.awaits_first_topics = True
    assert (cache.may_exist("orders", 0), cache.exists("orders", 0)) == (True, False)
    cache.set_partition("payments", OLD_ID, 0, led())
    assert [cache.may_exist(name, 0) for name in ("orders", "payments")] == [False, True]


def test_topics_are_awaited_until_this_broker_is_in_the_metadata_though_all_were_deleted_meanwhile() -> None:
    cache = MetadataCache("a-cluster")
    cache.awaits_first_topics = True
    cache.awaits_first_topics_until(lambda: ME in cache.brokers)
    cache.set_brokers(OTHER, [known_broker(OTHER)])
    cache.changed()
    assert cache.awaits_first_topics
    cache.set_brokers(OTHER, [known_broker(OTHER), known_broker(ME)])
    cache.changed()
    assert not cache.awaits_first_topics
    cache.awaits_first_topics = True
    cache.changed()
    assert cache.awaits_first_topics, "it is told once"
    cache.awaits_first_topics_until(lambda: True)
    assert not cache.awaits_first_topics


def test_a_partition_exists_on_whichever_broker_it_is() -> None:
    cache = a_cache()
    cache.set_partition("orders", OLD_ID, 2, led(OTHER))
    assert [cache.exists("orders", index) for index in (0, 1, 2, 3, -1)] == [True, True, True, False, False]
    assert not cache.exists("nothing", 0)


def test_a_partitions_new_state_replaces_its_old_one() -> None:
    cache = a_cache()
    cache.set_partition("orders", OLD_ID, 1, led(OTHER, epoch=5))
    assert cache.topics["orders"].partitions == {0: led(), 1: led(OTHER, epoch=5)}


def test_a_recreated_topic_has_its_new_id_and_none_of_its_old_partitions() -> None:
    cache = a_cache()
    cache.set_partition("orders", NEW_ID, 0, led(epoch=1))
    assert cache.name_of(NEW_ID) == "orders"
    assert cache.name_of(OLD_ID) is None
    assert cache.topics["orders"].partitions == {0: led(epoch=1)}


def test_topics_without_ids_are_found_by_name_alone() -> None:
    cache = MetadataCache("a-cluster")
    for name in ("orders", "bills"):
        cache.set_partition(name, NO_TOPIC_ID, 0, led())
        cache.set_partition(name, NO_TOPIC_ID, 1, led())
    assert cache.name_of(NO_TOPIC_ID) is None
    assert {name: len(topic.partitions) for name, topic in cache.topics.items()} == {"orders": 2, "bills": 2}
    cache.drop_partition("orders", 0)
    cache.drop_partition("orders", 1)
    assert list(cache.topics) == ["bills"]


def test_under_a_protocol_without_topic_ids_no_client_is_sent_one() -> None:
    cache = MetadataCache("a-cluster", uses_topic_ids=False)
    cache.set_partition("orders", OLD_ID, 0, led())
    assert cache.topics["orders"].topic_id == NO_TOPIC_ID
    assert cache.name_of(OLD_ID) is None


def test_a_topic_is_gone_with_its_last_partition() -> None:
    cache = a_cache()
    cache.drop_partition("orders", 0)
    assert cache.name_of(OLD_ID) == "orders"
    assert not cache.exists("orders", 0)
    cache.drop_partition("orders", 1)
    assert cache.topics == {}
    assert cache.name_of(OLD_ID) is None


def test_dropping_what_is_not_there_changes_nothing() -> None:
    cache = a_cache()
    cache.drop_partition("orders", 9)
    cache.drop_partition("nothing", 0)
    assert list(cache.topics["orders"].partitions) == [0, 1]


def test_the_list_of_live_brokers_is_replaced_as_a_whole() -> None:
    cache = a_cache()
    cache.set_brokers(ME, [known_broker(ME), known_broker(OTHER)])
    cache.set_brokers(OTHER, [known_broker(OTHER)])
    assert cache.controller_id == OTHER
    assert list(cache.brokers) == [OTHER]


def test_before_the_first_command_there_is_no_controller() -> None:
    assert MetadataCache("a-cluster").controller_id == BrokerId(-1)


def test_a_cached_response_is_used_until_a_change() -> None:
    cache = a_cache()
    cache.cache_response("key", b"answer")
    assert cache.cached_response("key") == b"answer"
    assert cache.cached_response("other") is None
    epoch = cache.epoch
    cache.changed()
    assert cache.cached_response("key") is None
    assert cache.epoch == epoch + 1


def test_the_oldest_cached_responses_are_evicted() -> None:
    cache = a_cache()
    count = metadata_cache.CACHED_RESPONSES_MAX + 2
    for number in range(count):
        cache.cache_response(number, b"answer")
    kept = [number for number in range(count) if cache.cached_response(number) is not None]
    assert kept == list(range(2, count))


def test_cached_responses_are_bounded_in_bytes() -> None:
    cache = a_cache()
    half = bytes(metadata_cache.CACHED_BYTES_MAX // 2)
    for number in range(3):
        cache.cache_response(number, half)
    assert [cache.cached_response(number) is not None for number in range(3)] == [False, True, True]
    cache.cache_response("huge", bytes(metadata_cache.CACHED_BYTES_MAX + 1))
    assert cache.cached_response("huge") is None
    assert cache.cached_response(2) is not None, "and pushes nothing out"
    cache.changed()
    for number in range(2):
        cache.cache_response(number, half)
    assert [cache.cached_response(number) is not None for number in range(2)] == [True, True]


def test_a_response_cached_again_counts_once() -> None:
    cache = a_cache()
    half = bytes(metadata_cache.CACHED_BYTES_MAX // 2)
    for number in (0, 1, 1, 1):
        cache.cache_response(number, half)
    assert cache.cached_response(0) is not None


def test_listeners_are_called_for_every_change_until_removed() -> None:
    cache = a_cache()
    notified: list[str] = []
    end_one = cache.on_change(lambda: notified.append("one"))
    cache.on_change(lambda: notified.append("two"))
    cache.changed()
    end_one()
    cache.changed()
    assert notified == ["one", "two", "two"]


def test_a_listener_may_be_removed_while_it_is_called() -> None:
    cache = a_cache()
    notified: list[str] = []

    def once() -> None:
        notified.append("once")
        end()

    end = cache.on_change(once)
    cache.on_change(lambda: notified.append("always"))
    cache.changed()
    cache.changed()
    assert notified == ["once", "always", "always"]
