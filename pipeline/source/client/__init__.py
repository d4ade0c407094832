"""A synchronous Kafka client for Spark's workers: what a batch reader needs, over sockets, TLS and SASL.

    with Client(ClientSettings.from_options({"kafka.bootstrap.servers": "localhost:9092"})) as client:
        for fetched in client.read(TopicPartition("orders", 0), start, end):
            ...

It speaks the messages of `sordini.protocol` in the newest version that both sides know, from Apache Kafka 1.0 on.
There are no threads: a `Client` belongs to one thread, and to one process, as sockets do; its settings can be pickled.
"""

from __future__ import annotations

from sordini.client.errors import NotServed, Refused, Unauthorized, Unreachable
from sordini.pipeline.errors import BadSetting, NoProgress, OffsetLost, PipelineError, TopicRecreated, UnknownTopic
from sordini.pipeline.source.client.client import Client
from sordini.pipeline.source.client.settings import ClientSettings
from sordini.pipeline.source.client.types import EARLIEST, LATEST, NO_OFFSET, Fetched

__all__ = [
    "EARLIEST",
    "LATEST",
    "NO_OFFSET",
    "BadSetting",
    "Client",
    "ClientSettings",
    "Fetched",
    "NoProgress",
    "NotServed",
    "OffsetLost",
    "PipelineError",
    "Refused",
    "TopicRecreated",
    "Unauthorized",
    "UnknownTopic",
    "Unreachable",
]
