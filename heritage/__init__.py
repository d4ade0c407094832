"""For reading and running the documents; applications use aiokafka, kafka-python or confluent-kafka.

These are the clients of Apache Kafka 0.7 to 1.1 as the five documents (docs/documents.md) describe them, on threads:

    producer.Producer                       synchronous or asynchronous, with a partitioner, an encoder and hooks
    simple_consumer.SimpleConsumer          one broker, every request with its offset, no state
    consumer_connector.ConsumerConnector    streams of a group's partitions, balanced through ZooKeeper

They are built as the documents build them: the connector reads with simple consumers, and its group is a few znodes
(`registry.py`) and a rule that all members compute alike (`assignment.py`). docs/heritage.md says what they do beyond
the documents, and where these contradict each other.
"""
