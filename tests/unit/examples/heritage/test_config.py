"""Properties by the documents' names."""

from __future__ import annotations

import pytest

from examples.heritage.config import ConsumerConfig, ProducerConfig
from examples.heritage.errors import ConfigError


def test_properties_are_read_from_text_and_from_values() -> None:
    config = ProducerConfig.of({"broker.list": "a:1", "batch.size": "7", "queue.time": 9, "producer.type": "async"})
    assert (config.batch_size, config.queue_time, config.producer_type) == (7, 9, "async")
    assert ConsumerConfig.of({"group.id": "g", "auto.commit.enable": "false"}).auto_commit is False


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"broker.lists": "a:1"}, "broker.lists is no property of ProducerConfig; known are batch.size, broker.list,"),
        (
            {"broker.list": "a:1", "batch.size": 0},
            "batch.size='0' is not valid: allowed is a whole number of at least 1",
        ),
        ({"broker.list": "a:1", "batch.size": "x"}, "batch.size='x' is not valid"),
        (
            {"broker.list": "a:1", "producer.type": "both"},
            "producer.type='both' is not valid: allowed is one of sync, async",
        ),
        ({"broker.list": "a:1", "compression.codec": "lzo"}, "allowed is one of none, gzip, snappy, lz4, zstd"),
        (
            {"broker.list": "a:1", "request.required.acks": 0},
            "request.required.acks='0' is not valid: allowed are 1 and -1",
        ),
        ({}, "exactly one of zk.connect and broker.list is to be set"),
        ({"broker.list": "a:1", "zk.connect": "z:1"}, "exactly one of zk.connect and broker.list is to be set"),
    ],
)
def test_a_wrong_property_is_refused_with_its_name_its_value_and_what_is_allowed(
    properties: dict[str, object], error: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        ProducerConfig.of(properties)
    assert error in str(refused.value)


@pytest.mark.parametrize("group", ["", "a/b"])
def test_a_group_is_one_step_of_a_path(group: str) -> None:
    with pytest.raises(ConfigError, match="allowed is a name without a slash"):
        ConsumerConfig.of({"group.id": group})


def test_compression_is_for_all_topics_unless_some_are_named() -> None:
    all_topics = ProducerConfig.of({"broker.list": "a:1", "compression.codec": "gzip"})
    some = ProducerConfig.of({"broker.list": "a:1", "compression.codec": "gzip", "compressed.topics": "orders, sales"})
    assert [all_topics.codec_of("orders"), all_topics.codec_of("other")] == [1, 1]
    assert [some.codec_of(topic) for topic in ("orders", "sales", "other")] == [1, 1, 0]
