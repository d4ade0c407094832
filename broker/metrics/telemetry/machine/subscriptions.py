"""Which metrics a client pushes, and how often: all subscriptions that match it, as one (KIP-714). Pure.

The id of a subscription is computed of what it says and of the instance, so that every broker of the cluster gives the
same client the same id, and another one as soon as the subscriptions are others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sordini.broker.configuration.client_metrics_config import (
    ALL_METRICS,
    INTERVAL_MS_DEFAULT,
    ClientMetricsConfig,
)
from sordini.broker.configuration.linear_pattern import LinearPattern
from sordini.protocol.crc import crc32c
from sordini.protocol.types import TopicId, topic_id_text
from sordini.system.named_tuple import NamedTuple

TEXT_MAX: Final = 256
"""Characters of what a client says of itself: longer text is cut where it is kept, and matches no pattern."""


class ClientIdentity(NamedTuple):
    """What is known of a client from its connection."""

    client_id: str | None
    software_name: str
    software_version: str
    address: str
    port: int
    principal: str


class Subscribed(NamedTuple):
    """What a client is told to push."""

    subscription_id: int
    metrics: tuple[str, ...]
    """Prefixes; `*` is all, none is nothing."""
    push_interval_ms: int


def instance_text(instance_id: bytes) -> str:
    """The 22 characters by which an instance is shown, as ids of topics are."""
    return topic_id_text(TopicId(instance_id))


def subscribed(subscriptions: Iterable[ClientMetricsConfig], instance_id: bytes, client: ClientIdentity) -> Subscribed:
    """All subscriptions that match a client, as one.

    The interval is the shortest of them, and five minutes at most: Apache Kafka takes its default into account, too.
    """
    metrics: set[str] = set()
    interval_ms = INTERVAL_MS_DEFAULT
    texts = _texts(instance_id, client)
    for subscription in subscriptions:
        if all(_is_match(texts[selector], pattern) for selector, pattern in subscription.match):
            metrics.update(subscription.metrics)
            interval_ms = min(interval_ms, subscription.interval_ms)
    chosen = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
    return Subscribed(_subscription_id(chosen, interval_ms, instance_id), chosen, interval_ms)


def _texts(instance_id: bytes, client: ClientIdentity) -> dict[str, str | None]:
    return {
        "client_instance_id": instance_text(instance_id),
        "client_id": client.client_id,
        "client_software_name": client.software_name,
        "client_software_version": client.software_version,
        "client_source_address": client.address,
        "client_source_port": str(client.port),
    }


def _is_match(text: str | None, pattern: LinearPattern) -> bool:
    return text is not None and len(text) <= TEXT_MAX and pattern.find(text, is_whole=True) is not None


def _subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: bytes) -> int:
    """The checksum of what is subscribed, and the hash of the id as Java has it: the same bits as Apache Kafka's."""
    high, low = int.from_bytes(instance_id[:8], "big"), int.from_bytes(instance_id[8:], "big")
    both = high ^ low
    bits = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode()) ^ (both >> 32) ^ (both & 0xFFFF_FFFF)
    return bits - (1 << 32) if bits >= 1 << 31 else bits
