"""What a producer is given, and what a user may put in the place of its defaults, by a subclass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sordini.heritage.errors import ConfigError
from sordini.protocol.java_hash import bytes_hash, number_hash, partition_of, text_hash


class ProducerData(NamedTuple):
    """Messages that go to one partition of a topic together. The key chooses it, and is not stored in them."""

    topic: str
    key: Any
    """None: a partition at random."""
    messages: Sequence[Any]


class Partitioner:
    """Chooses the partition for a key: by default its Java `hashCode` modulo the number of partitions.

    Python's own `hash` of text differs from process to process.
    """

    def partition(self, key: Any, num_partitions: int) -> int:
        """From 0 up to but not including `num_partitions`. Raises ConfigError for keys without a Java hash code."""
        if isinstance(key, str):
            return partition_of(text_hash(key), num_partitions)
        if isinstance(key, bytes):
            return partition_of(bytes_hash(key), num_partitions)
        if type(key) is int and -(2**63) <= key < 2**63:
            return partition_of(number_hash(key), num_partitions)
        raise ConfigError(f"{key!r} of type {type(key).__name__} has no Java hash code: give a partitioner")


class Encoder:
    """Makes the bytes of a message; the default does nothing."""

    def to_message(self, data: Any) -> bytes:
        if not isinstance(data, bytes):
            raise ConfigError(f"a message is {type(data).__name__}; without an encoder messages are bytes")
        return data


class CallbackHandler:
    """Hooks, called in the thread that sends: the caller's, or that of an asynchronous producer."""

    def before_sending_data(self, events: Sequence[ProducerData]) -> Sequence[ProducerData]:
        """What is to be sent in the place of these."""
        return events

    def on_failure(self, events: Sequence[ProducerData], error: Exception) -> None:
        """These were not sent, or that is unknown; the last attempt ended with the error."""
