"""What a user of the producer may put in the place of the defaults: the partitioner, the encoder and the hooks.

The default partition of a key is Java's, since Python's `hash` of text differs from process to process: the absolute
value of the key's `hashCode`, modulo the number of partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sordini.heritage.errors import ConfigError
from sordini.heritage.producer_data import ProducerData


class Partitioner(Protocol):
    """Chooses the partition of messages with a key; messages without one go to a partition at random."""

    def partition(self, key: Any, num_partitions: int) -> int:
        """From 0 up to but not including `num_partitions`."""


class Encoder(Protocol):
    """Makes the bytes of a message."""

    def to_message(self, data: Any) -> bytes: ...


class CallbackHandler(Protocol):
    """Called in the thread that sends: the caller's, or that of an asynchronous producer."""

    def before_sending_data(self, events: Sequence[ProducerData]) -> Sequence[ProducerData]:
        """What is to be sent in the place of these."""

    def on_failure(self, events: Sequence[ProducerData], error: Exception) -> None:
        """These were not sent, or it is not known; the last attempt ended with the error."""


class DefaultPartitioner:
    """As Apache Kafka's, with `key.hashCode()` computed in Python."""

    def partition(self, key: Any, num_partitions: int) -> int:
        code = java_hash_code(key)
        return 0 if code == -(2**31) else abs(code) % num_partitions


class DefaultEncoder:
    """Does nothing: messages are bytes already."""

    def to_message(self, data: Any) -> bytes:
        if not isinstance(data, bytes):
            raise ConfigError(f"a message is {type(data).__name__}; without an encoder messages are bytes")
        return data


class NoCallbacks:
    """The hooks without any effect."""

    def before_sending_data(self, events: Sequence[ProducerData]) -> Sequence[ProducerData]:
        return events

    def on_failure(self, events: Sequence[ProducerData], error: Exception) -> None:
        """Nothing."""


def java_hash_code(key: Any) -> int:
    """`hashCode` of a String, `Arrays.hashCode` of bytes, and that of an Integer, or of a Long beyond 32 bits.

    Raises ConfigError for keys of other types.
    """
    if isinstance(key, str):
        units = key.encode("utf-16-be", "surrogatepass")
        return _folded(0, [units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)])
    if isinstance(key, bytes):
        return _folded(1, [byte - 256 if byte > 127 else byte for byte in key])
    if isinstance(key, int) and not isinstance(key, bool) and -(2**63) <= key < 2**63:
        return key if -(2**31) <= key < 2**31 else _signed(key ^ (key & 2**64 - 1) >> 32)
    raise ConfigError(f"no Java hash code of a key of type {type(key).__name__}; give a partitioner")


def _folded(start: int, numbers: Sequence[int]) -> int:
    code = start
    for number in numbers:
        code = (31 * code + number) & 0xFFFF_FFFF
    return _signed(code)


def _signed(code: int) -> int:
    return ((code & 0xFFFF_FFFF) ^ 2**31) - 2**31
