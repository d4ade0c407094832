"""Incremental fetch sessions (KIP-227): made, updated, forgotten, and addressed wrongly."""

from typing import Any

from tests.compat.situations.batches import batch
from tests.compat.situations.definitions import Values
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker, Conversation


class _Session:
    """Fetches with whatever session id and epoch the situation says."""

    def __init__(self, broker: Broker, name: str, version: int = 11) -> None:
        self.topic = broker.create(name, partitions=3)
        self.topic_id = broker.topic_id(self.topic)
        self.broker = broker
        self.version = version
        self.conversation: Conversation = broker.connect()

    def _topic(self) -> Values:
        return {"topic_id": self.topic_id} if self.version >= 13 else {"topic": self.topic}

    def fetch(self, session_id: int, epoch: int, offsets: dict[int, int], forget: tuple[int, ...] = ()) -> Any:
        partitions = [
            {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 10_000}
            for partition, offset in offsets.items()
        ]
        forgotten = [{**self._topic(), "partitions": list(forget)}] if forget else []
        return self.conversation.ask(
            "Fetch",
            self.version,
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=100_000,
            session_id=session_id,
            session_epoch=epoch,
            topics=[{**self._topic(), "partitions": partitions}] if partitions else [],
            forgotten_topics_data=forgotten,
        )


@situation("a fetch session is made, asked, updated, cut and closed")
def life(broker: Broker) -> Any:
    session = _Session(broker, "session-life")
    for partition in range(3):
        broker.produce(session.topic, batch(1), partition=partition)
    made = session.fetch(0, 0, {0: 0, 1: 0, 2: 0})
    own = made["session_id"]
    seen = {"made": made, "asked, offsets as before": session.fetch(own, 1, {})}
    seen["moved on"] = session.fetch(own, 2, {0: 1, 1: 1, 2: 1})
    seen["nothing new"] = session.fetch(own, 3, {})
    broker.produce(session.topic, batch(2), partition=1)
    seen["one has news"] = session.fetch(own, 4, {})
    seen["forget it"] = session.fetch(own, 5, {}, forget=(1,))
    seen["nothing new again"] = session.fetch(own, 6, {})
    seen["one added"] = session.fetch(own, 7, {1: 3})
    seen["closed"] = session.fetch(own, -1, {0: 0})
    seen["asked after closing"] = session.fetch(own, 8, {})
    session.conversation.close()
    return seen


@situation("a fetch session with a wrong epoch, and an unknown session")
def wrong(broker: Broker) -> Any:
    session = _Session(broker, "session-wrong")
    own = session.fetch(0, 0, {0: 0})["session_id"]
    seen = {
        "epoch 5 for 1": session.fetch(own, 5, {}),
        "epoch 1": session.fetch(own, 1, {}),
        "epoch 1 again": session.fetch(own, 1, {}),
        "unknown session": session.fetch(987_654_321 if own != 987_654_321 else 1, 1, {}),
        "session 0, epoch 1": session.fetch(0, 1, {0: 0}),
        "unknown session, epoch 0": session.fetch(987_654_321, 0, {0: 0}),
        "unknown session, epoch -1": session.fetch(987_654_321, -1, {0: 0}),
        "epoch -2": session.fetch(own, -2, {0: 0}),
    }
    session.conversation.close()
    return seen


@situation("a sessionless fetch makes no session")
def sessionless(broker: Broker) -> Any:
    session = _Session(broker, "session-less")
    seen = {"epoch -1": session.fetch(0, -1, {0: 0}), "no partitions, epoch 0": session.fetch(0, 0, {})}
    session.conversation.close()
    return seen


@situation("a fetch session replaced by a new one on the same connection")
def replaced(broker: Broker) -> Any:
    session = _Session(broker, "session-replaced")
    first = session.fetch(0, 0, {0: 0})["session_id"]
    second = session.fetch(first, 0, {1: 0})
    seen = {
        "replaced": second,
        "another id": second["session_id"] != first,
        "the old one": session.fetch(first, 1, {}),
        "the new one": session.fetch(second["session_id"], 1, {0: 0}),
    }
    session.conversation.close()
    return seen


@situation("a fetch session is not bound to its connection")
def other_connection(broker: Broker) -> Any:
    session = _Session(broker, "session-elsewhere")
    own = session.fetch(0, 0, {0: 0})["session_id"]
    session.conversation.close()
    session.conversation = broker.connect()
    seen = session.fetch(own, 1, {})
    session.conversation.close()
    return seen


@situation("a fetch session that holds errors repeats them")
def errors(broker: Broker) -> Any:
    session = _Session(broker, "session-errors")
    made = session.fetch(0, 0, {0: 99, 7: 0})
    own = made["session_id"]
    seen = {"made": made, "again": session.fetch(own, 1, {}), "mended": session.fetch(own, 2, {0: 0}, forget=(7,))}
    session.conversation.close()
    return seen


@situation("a fetch session by topic id, with an id that is not there")
def topic_ids(broker: Broker) -> Any:
    session = _Session(broker, "session-ids", version=13)
    made = session.fetch(0, 0, {0: 0})
    own = made["session_id"]
    right = session.topic_id
    session.topic_id = b"\x06" * 16
    seen = {"made": made, "an unknown id added": session.fetch(own, 1, {0: 0})}
    session.topic_id = right
    seen["asked again"] = session.fetch(own, 2, {})
    session.version = 12
    seen["by names in the session of ids"] = session.fetch(own, 3, {0: 0})
    session.conversation.close()
    return seen


@situation("a fetch session whose topic is deleted and made again")
def topic_made_again(broker: Broker) -> Any:
    session = _Session(broker, "session-again", version=13)
    made = session.fetch(0, 0, {0: 0})
    broker.ask("DeleteTopics", 4, topic_names=[session.topic], timeout_ms=10_000)
    for _ in range(2000):
        answer = broker.ask("Metadata", 9, topics=[{"name": session.topic}], allow_auto_topic_creation=False)
        if answer["topics"][0]["error_code"] == 3:
            break
    seen = {"made": made, "deleted": session.fetch(made["session_id"], 1, {})}
    session.conversation.close()
    return seen
