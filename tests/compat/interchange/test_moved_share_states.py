"""Stored states whose log is moved to a broker of the other kind, and back: leaders and groups do not notice.

What the next coordinator knows of a share partition is what the last one wrote into `__share_group_state`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sordini.broker.share_state.machine.state_runs import StateRun
from sordini.broker.share_state.ports import SharePartitionKey, StateSummary, StateWrite
from sordini.broker.share_state.records import SHARE_STATE_TOPIC
from sordini.broker.share_state.state_apis import INITIALIZE, READ, SUMMARIZE, WRITE, InitialState, StateApi, error_of
from sordini.protocol.errors import ErrorCode
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import Offset, TopicId, topic_id_from_text
from tests.compat.groups.waiting import eventually
from tests.compat.interchange.kraft_exchange import KRaftExchange, Side
from tests.compat.interchange.test_moved_groups import errors
from tests.support.wire_client import Client

TOPIC: Final = "orders"
PARTITIONS: Final = 3
NOT_YET: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 14, 15, 16})
SECONDS_MAX: Final = 60
SETTINGS: Final[dict[str, object]] = {
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.snapshot.update.records.per.snapshot": 4,
    "share.coordinator.state.topic.prune.interval.ms": 500,
    "auto.create.topics.enable": "false",
}


class Leader:
    """A leader of share partitions, and their group's coordinator: what it wrote last is what it reads."""

    def __init__(self, exchange: KRaftExchange) -> None:
        self._exchange = exchange
        topic_id = topic_id_of(exchange)
        self.keys = [SharePartitionKey("workers", topic_id, number) for number in range(PARTITIONS)]
        self.writes = 0
        for key in self.keys:
            assert self.ask(INITIALIZE, key, InitialState(2, Offset(0))) is ErrorCode.NONE

    def ask(self, api: StateApi, key: SharePartitionKey, argument: Any) -> Any:
        """The answer, when it is not that the coordinator is not there or loads."""
        topic = api.topic(topic_id=key.topic_id, partitions=[api.row(key.partition, argument)])
        request, found = api.request(group_id=key.group_id, topics=[topic]), []

        def is_served() -> bool:
            with Client("127.0.0.1", self._exchange.port) as client:
                response: Any = client.ask(api.key, APIS[api.key].max_version, request)
            found.append(api.answer_of(response.results[0].partitions[0]))
            return error_of(found[-1]) not in NOT_YET

        eventually(is_served, "the coordinator serves", SECONDS_MAX)
        return found[-1]

    def work(self) -> None:
        """Some acknowledgements of each partition."""
        for _ in range(7):
            self.writes += 1
            for key in self.keys:
                offset = 3 * self.writes
                runs = (StateRun(offset, offset + 2, 2, 1), StateRun(offset + 2, offset + 3, 0, self.writes % 5))
                write = StateWrite(2, 1, Offset(self.writes), 2 + key.partition, runs)
                assert self.ask(WRITE, key, write) is ErrorCode.NONE

    def seen(self) -> list[tuple[Any, StateSummary]]:
        return [(self.ask(READ, key, 1), self.ask(SUMMARIZE, key, None)) for key in self.keys]


def topic_id_of(exchange: KRaftExchange) -> TopicId:
    path = exchange.broker.data_directory / f"{TOPIC}-0" / "partition.metadata"
    eventually(path.exists, "the topic has its folder", SECONDS_MAX)
    text = path.read_text(encoding="utf-8")
    return topic_id_from_text(dict(line.split(": ") for line in text.splitlines())["topic_id"])


@pytest.fixture
def exchange(zookeeper: str, tmp_path: Path) -> Iterator[KRaftExchange]:
    """With the topics, and Apache Kafka running: only it can make them."""
    made = KRaftExchange(tmp_path, zookeeper, SETTINGS)
    try:
        made.start()
        made.create(TOPIC, PARTITIONS, {})
        made.create(SHARE_STATE_TOPIC, 1, {"cleanup.policy": "delete", "retention.ms": "-1"})
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_states_live_on_under_a_coordinator_of_the_other_kind_and_back(
    exchange: KRaftExchange, first: Side, how: str
) -> None:
    if first == "ours":
        exchange.hand_over(is_killed=False)
    leader = Leader(exchange)
    leader.work()
    for _ in range(2):
        before = leader.seen()
        assert before[0][0].runs
        exchange.hand_over(is_killed=how == "killed")
        assert leader.seen() == before, exchange.side
        leader.work()
    assert errors(exchange) == []
