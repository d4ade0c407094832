"""Clients that repeat quickly."""

from __future__ import annotations

from typing import Protocol

from confluent_kafka import Producer


class HasBrokers(Protocol):
    """A `Kafka`, or what reaches one by its control."""

    @property
    def bootstrap_servers(self) -> str: ...


def producer(brokers: HasBrokers, **settings: object) -> Producer:
    """librdkafka's, idempotent."""
    return Producer(
        {
            "bootstrap.servers": brokers.bootstrap_servers,
            "enable.idempotence": True,
            "retry.backoff.ms": 5,
            "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 50,
            "linger.ms": 0,
            "log_level": 0,
            **settings,
        }
    )
