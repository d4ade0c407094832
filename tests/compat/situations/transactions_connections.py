"""Requests of a transactional producer on connections older than its newest (docs/delayed-requests.md)."""

from typing import Any

from tests.compat.situations.members import Group
from tests.compat.situations.producers import at, initialised, settled
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker


@situation("EndTxn on a connection that is older than the producer's newest")
def older_end(broker: Broker) -> Any:
    topic = broker.create("older-end")
    old = broker.connect()
    try:
        producer = initialised(broker, "older-end")
        producer.write(topic)
        old.ask("ApiVersions", 0)
        late = old.ask("EndTxn", 3, **producer.identity(), committed=True)
        return {"late": late, "its own": producer.end_after(), "described": producer.describe()}
    finally:
        old.close()


@situation("a transactional producer goes on over a new connection")
def newer_connection(broker: Broker) -> Any:
    topic = broker.create("newer")
    producer = initialised(broker, "newer")
    producer.add({topic: [0]})
    broker.close()
    sent = producer.send(topic)
    broker.close()
    return [sent, producer.commit(), producer.describe()]


@situation("TxnOffsetCommit on the connection on which a transaction with offsets was aborted")
def after_an_abort(broker: Broker) -> Any:
    topic = broker.create("older-offsets")
    with Group(broker, "older-offsets") as group:
        producer = initialised(broker, "older-offsets")
        producer.add_offsets(group.id)
        producer.commit_offsets(group.id, {topic: [at(5)]})
        producer.abort()
        settled(group, topic)
        producer.add_offsets(group.id)
        first = producer.commit_offsets(group.id, {topic: [at(7)]})
        again = producer.commit_offsets(group.id, {topic: [at(7)]})
        return {"first": first, "again": again, "commit": producer.commit(), "read": settled(group, topic)}
