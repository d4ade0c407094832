"""A leader of share partitions and a share coordinator that moves, in a simulated cluster under faults.

The leader finds the coordinator as a broker does, and repeats a write until it is answered. What was answered is there at the end,
whichever broker coordinates by then.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from sordini.broker.coordinators.share_partition_names import share_partition_name
from sordini.broker.share_state.machine.state_runs import StateRun
from sordini.broker.share_state.ports import SharePartitionKey, StateWrite
from sordini.broker.share_state.state_apis import INITIALIZE, READ, WRITE, InitialState, StateApi, error_of
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.headers import read_response_header, request_header
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import Offset, TopicId
from sordini.testing import Scenario, simulate

TOPIC: Final = "orders"
SHARE_PARTITIONS: Final = 3
WRITES: Final = 40
ATTEMPTS_MAX: Final = 2_000
ACKNOWLEDGED: Final = 2
ANSWER_S_MAX: Final = 3.0
PAUSE_S: Final = 0.1
BROKER_FAULTS: Final = ["crash_broker", "stop_broker", "pause_broker", "cut_broker", "expire_session"]
CONFIG: Final = {"share.coordinator.snapshot.update.records.per.snapshot": 5}


class Leader:
    """Writes, and remembers what was answered."""

    def __init__(self) -> None:
        self.keys: list[SharePartitionKey] = []
        self.answered: dict[SharePartitionKey, set[int]] = {}
        self.coordinators: set[str] = set()
        self.bootstrap: list[tuple[str, int]] = []

    async def load(self, bootstrap_servers: str, scenario: Scenario) -> None:
        self.bootstrap = [
            (host, int(port)) for host, _, port in (one.partition(":") for one in bootstrap_servers.split(","))
        ]
        topic_id = await self._topic_id()
        self.keys = [SharePartitionKey("workers", topic_id, number) for number in range(SHARE_PARTITIONS)]
        self.answered = {key: set() for key in self.keys}
        for key in self.keys:
            assert await self._until_served(INITIALIZE, key, InitialState(2, Offset(0))) is ErrorCode.NONE
        for number in range(WRITES):
            await asyncio.sleep(scenario.random.expovariate(2))
            key = scenario.random.choice(self.keys)
            write = StateWrite(
                2, 0, Offset(0), len(self.answered[key]) + 1, (StateRun(number, number + 1, ACKNOWLEDGED, 1),)
            )
            assert await self._until_served(WRITE, key, write) is ErrorCode.NONE
            self.answered[key].add(number)

    async def settled(self, _scenario: Scenario) -> None:
        for key in self.keys:
            found = await self._until_served(READ, key, 0)
            runs = {offset for run in found.runs for offset in range(run.first, run.end) if run.state == ACKNOWLEDGED}
            assert runs == self.answered[key]

    async def _topic_id(self) -> TopicId:
        for _ in range(ATTEMPTS_MAX):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
            answer = await self._ask_any(ApiKey.METADATA, 12, request)
            if answer is not None and answer.topics[0].error_code == 0:
                return TopicId(bytes(answer.topics[0].topic_id))
            await asyncio.sleep(PAUSE_S)
        raise AssertionError("the topic is not known")

    async def _until_served(self, api: StateApi, key: SharePartitionKey, argument: Any) -> Any:
        """The answer of a coordinator that serves; every other one is followed by another attempt."""
        topic = api.topic(topic_id=key.topic_id, partitions=[api.row(key.partition, argument)])
        request = api.request(group_id=key.group_id, topics=[topic])
        for _ in range(ATTEMPTS_MAX):
            named = FindCoordinatorRequest(key_type=2, coordinator_keys=[share_partition_name(*key)])
            found = await self._ask_any(ApiKey.FIND_COORDINATOR, 6, named)
            if found is not None and found.coordinators[0].error_code == 0:
                coordinator = found.coordinators[0]
                response = await self._ask((coordinator.host, coordinator.port), api.key, 0, request)
                if response is not None:
                    answer = api.answer_of(response.results[0].partitions[0])
                    if error_of(answer) is ErrorCode.NONE:
                        self.coordinators.add(coordinator.host)
                        return answer
            await asyncio.sleep(PAUSE_S)
        raise AssertionError(f"{key} is not served")

    async def _ask_any(self, key: ApiKey, version: int, request: Any) -> Any:
        for address in self.bootstrap:
            answer = await self._ask(address, key, version, request)
            if answer is not None:
                return answer
        return None

    async def _ask(self, address: tuple[str, int], key: ApiKey, version: int, request: Any) -> Any:
        """The response; None where there is none in time."""
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                reader, writer = await asyncio.open_connection(*address)
                try:
                    frame = request_header(APIS[key], version, 1, "leader") + codecs.encode(request, version)
                    writer.write(len(frame).to_bytes(4, "big") + frame)
                    size = int.from_bytes(await reader.readexactly(4), "big")
                    body = memoryview(await reader.readexactly(size))
                finally:
                    writer.close()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            return None
        _, position = read_response_header(APIS[key], version, body)
        return codecs.decode(APIS[key].response, version, body, position)[0]


async def idle(_bootstrap_servers: str, _scenario: Scenario) -> None:
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("seed", [1])
def test_no_answered_write_is_lost_where_the_coordinator_moves(seed: int) -> None:
    leader = Leader()
    simulate(
        idle,
        seed=seed,
        faults=BROKER_FAULTS,
        topics={TOPIC: SHARE_PARTITIONS},
        load=leader.load,
        settled=leader.settled,
        duration=30,
        config=CONFIG,
    ).check()
    assert len(leader.coordinators) > 1
    assert sum(map(len, leader.answered.values())) == WRITES
