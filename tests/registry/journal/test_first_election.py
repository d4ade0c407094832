"""Journals whose brokers let the first election of a group wait: who writes until then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from sordini.registry.ports import JournalFailed, NotTheWriter
from sordini.testing import Kafka, make_kafka
from sordini.testing.faults.names import ApiName
from tests.registry.journal.numbering import NumberingRegistry, settings

SECONDS_MAX = 30.0
NEVER_MS, SOON_MS = 600_000, 800


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    config = {"group.min.session.timeout.ms": 500, "group.initial.rebalance.delay.ms": request.param}
    with make_kafka(1, config=config) as made:
        yield made


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not holds():  # noqa: ASYNC110 - of brokers, too.
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(cluster: Kafka, port: int) -> AsyncIterator[NumberingRegistry]:
    registry = NumberingRegistry(cluster.bootstrap_servers, settings(port, session_timeout_ms=10_000))
    task = asyncio.create_task(registry.journal.run())
    try:
        await registry.journal.wait_until_current()
        yield registry
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("cluster", [NEVER_MS], indirect=True)
async def test_the_first_registry_of_a_group_writes_before_the_election_and_the_next_one_does_not(
    cluster: Kafka,
) -> None:
    async with running(cluster, 8082) as first:
        await until(lambda: first.journal.is_writer)
        assert first.journal.writer == "http://127.0.0.1:8082"
        assert await first.register("a") == 1
        async with running(cluster, 8081) as second:
            await until(lambda: second.journal._member._failures > 0 or bool(second.journal._member._member_id))
            assert not second.journal.is_writer
            with pytest.raises(NotTheWriter):
                await second.register("b")
            assert await first.register("b") == 2
        assert first.journal._member._generation == -1, "there was no election meanwhile"


@pytest.mark.parametrize("cluster", [SOON_MS], indirect=True)
async def test_the_first_registry_of_a_group_is_elected_then_and_continues_its_term(cluster: Kafka) -> None:
    async with running(cluster, 8082) as first:
        await until(lambda: first.journal.is_writer)
        term = first.journal._writing.term
        # The second JoinGroup has the member id: it is the first member, which elects.
        await until(lambda: len(cluster.requests("JoinGroup")) >= 2)
        async with running(cluster, 8081) as second:
            await until(lambda: second.journal.writer == first.journal.writer is not None)
            assert first.journal.is_writer
            assert first.journal._writing.term is term
            assert await first.register("a") == 1


@pytest.mark.parametrize("cluster", [SOON_MS], indirect=True)
@pytest.mark.parametrize("api", ["DescribeConfigs", "ListOffsets"])
async def test_a_broker_that_does_not_know_the_new_topic_yet_is_asked_again(cluster: Kafka, api: ApiName) -> None:
    await asyncio.to_thread(lambda: cluster.on(api, times=2).fail("UNKNOWN_TOPIC_OR_PARTITION"))
    async with running(cluster, 8081) as registry:
        await until(lambda: registry.journal.is_writer)
    assert len(cluster.requests(api)) > 2


@pytest.mark.parametrize("cluster", [SOON_MS], indirect=True)
async def test_registries_that_start_together_give_no_id_twice(cluster: Kafka) -> None:
    async def register(registry: NumberingRegistry) -> None:
        """Until the election: whenever this one writes, it registers another schema."""
        number = 0
        while registry.journal._member._generation < 0:
            with contextlib.suppress(NotTheWriter, JournalFailed):
                await registry.register(f"{number} of {id(registry)}")
                number += 1
            await asyncio.sleep(0.001)

    async with running(cluster, 8081) as one, running(cluster, 8082) as two, running(cluster, 8083) as three:
        every = (one, two, three)
        await asyncio.gather(*map(register, every))
        for registry in every:
            await registry.journal.wait_until_current()
            numbers = [number for _, number in registry.registrations()]
            assert numbers == [*range(1, len(numbers) + 1)]
            assert numbers
