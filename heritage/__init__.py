"""For reading and running the documents; applications use aiokafka, kafka-python or confluent-kafka.

These are the clients of Apache Kafka 0.7 to 1.1 as the five documents (docs/documents.md) describe them, on threads:

    Producer            `producer.py`: synchronous or asynchronous, with a partitioner, an encoder and hooks
    SimpleConsumer      `simple_consumer.py`: one broker, every request with its offset, no state
    ConsumerConnector   `consumer_connector.py`: streams of a group's partitions, balanced through ZooKeeper

They are built as the documents build them: the connector reads with simple consumers, and its group is a few znodes
(`registry.py`) and a rule that all members compute alike (`assignment.py`). docs/heritage.md says what they do in
addition, and where the documents contradict each other.
"""

from __future__ import annotations

from sordini.heritage.config import ConsumerConfig, ProducerConfig
from sordini.heritage.consumer_connector import ConsumerConnector
from sordini.heritage.errors import HeritageError
from sordini.heritage.producer import Producer
from sordini.heritage.producer_data import ProducerData
from sordini.heritage.simple_consumer import FetchRequest, SimpleConsumer
from sordini.heritage.subscription import Blacklist, Whitelist

__all__ = [
    "Blacklist",
    "ConsumerConfig",
    "ConsumerConnector",
    "FetchRequest",
    "HeritageError",
    "Producer",
    "ProducerConfig",
    "ProducerData",
    "SimpleConsumer",
    "Whitelist",
]
