"""Journals of this process over brokers of the kit: elections, lost answers, brokers that fail, topics that are lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.topics.topic_descriptions import describe_topics
from sordini.admin.topics.topic_requests import delete_topics
from sordini.client.addresses import parse_bootstrap
from sordini.client.cluster_core import Access
from sordini.client.sockets import connect
from sordini.registry.journal.settings import TOPIC
from sordini.registry.journal.term import Phase
from sordini.registry.journal.topic import ensure_topic
from sordini.registry.ports import JournalFailed, NotTheWriter
from sordini.testing import Kafka, make_kafka
from tests.registry.journal.numbering import NumberingRegistry, settings
from tests.support.fake_ports import ListLog

SECONDS_MAX = 30.0
CONFIG = {"group.min.session.timeout.ms": 500, "group.initial.rebalance.delay.ms": 0}


@pytest.fixture(scope="module")
def site() -> Iterator[Kafka]:
    with make_kafka(3, config=CONFIG) as made:
        yield made


@pytest.fixture
def cluster(site: Kafka) -> Iterator[Kafka]:
    """Three brokers, as they were before each test but for the topics of others."""
    site.begin_test()
    yield site
    site.end_test()
    site.check_rules()


@pytest.fixture
def names(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A topic and a group of the test's own."""
    name = re.sub(r"\W+", "-", request.node.name)[-60:]
    return {"topic": f"{name}.t", "group": f"{name}.g"}


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that the journals' own tasks bring about."""
    async with asyncio.timeout(SECONDS_MAX):
        while not holds():  # noqa: ASYNC110 - of brokers, too.
            await asyncio.sleep(0.005)


async def blocking(call: Callable[..., object], *arguments: object) -> None:
    """The kit's calls block, and the journals run on this loop."""
    await asyncio.to_thread(call, *arguments)


@asynccontextmanager
async def running(registry: NumberingRegistry) -> AsyncIterator[asyncio.Task[None]]:
    """Its journal runs meanwhile, and has read the topic."""
    task = asyncio.create_task(registry.journal.run())
    try:
        await registry.journal.wait_until_current()
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def a_client(cluster: Kafka) -> ClusterClient:
    return ClusterClient(Access(tuple(parse_bootstrap(cluster.bootstrap_servers)), "test"), connect)


Run = Callable[..., Awaitable[NumberingRegistry]]


@pytest.fixture
async def run(cluster: Kafka, names: dict[str, Any]) -> AsyncIterator[Run]:
    """`await run(8081)`: a registry that runs for as long as the test."""
    async with AsyncExitStack() as stack:

        async def start(port: int, **changed: Any) -> NumberingRegistry:
            registry = NumberingRegistry(cluster.bootstrap_servers, settings(port, **names, **changed))
            await stack.enter_async_context(running(registry))
            return registry

        yield start


async def test_what_one_registry_appends_is_read_by_all_and_only_one_writes(run: Run) -> None:
    registries = [await run(port) for port in (8081, 8082, 8083)]
    await until(lambda: any(one.journal.is_writer for one in registries))
    (writer,) = [one for one in registries if one.journal.is_writer]
    readers = [one for one in registries if one is not writer]
    assert await writer.register("a") == 1
    assert await writer.register("b") == 2
    assert await writer.register("a") == 1
    for reader in readers:
        await reader.journal.wait_until_current()
        assert reader.ids == {"a": 1, "b": 2}
        await until(lambda reader=reader: reader.journal.writer == writer.journal.writer)  # type: ignore[misc]
        with pytest.raises(NotTheWriter) as refused:
            await reader.register("c")
        assert refused.value.writer == writer.journal.writer is not None
    assert writer.records == readers[0].records == readers[1].records


async def test_the_topic_is_compacted_and_has_one_partition_with_two_replicas_in_sync(
    run: Run, cluster: Kafka, names: dict[str, Any]
) -> None:
    await run(8081)
    assert list(cluster.end_offsets(names["topic"])) == [0]
    assert len(cluster.in_sync(names["topic"])) == 3
    async with a_client(cluster) as client:
        (described,) = await describe_topics(client, [names["topic"]])
    assert described["configs"]["cleanup.policy"] == "compact"
    assert described["configs"]["min.insync.replicas"] == "2"


@pytest.mark.parametrize(
    ("partitions", "config", "reason"),
    [
        (1, {"cleanup.policy": "delete"}, "cleanup.policy=delete, so schemas in it would be deleted"),
        (1, {"cleanup.policy": "compact,delete"}, "schemas in it would be deleted: set cleanup.policy=compact"),
        (2, {"cleanup.policy": "compact"}, "has 2 partitions, and a registry's topic has one"),
    ],
)
async def test_a_topic_in_which_schemas_would_be_lost_is_refused(
    cluster: Kafka, partitions: int, config: dict[str, str], reason: str
) -> None:
    topic = cluster.topic(partitions=partitions, config=config)
    registry = NumberingRegistry(cluster.bootstrap_servers, settings(8081, topic=topic, group=topic))
    with pytest.raises(JournalFailed, match=reason):
        await registry.journal.run()
    with pytest.raises(JournalFailed, match=reason):
        await registry.journal.wait_until_current()


async def test_when_the_writer_leaves_another_registry_writes(run: Run, cluster: Kafka, names: dict[str, Any]) -> None:
    """At once: sessions are longer than the test waits."""
    first = NumberingRegistry(cluster.bootstrap_servers, settings(8081, **names, session_timeout_ms=120_000))
    async with running(first):
        await until(lambda: first.journal.is_writer)
        await first.register("a")
        second = await run(8082, session_timeout_ms=120_000)
        await until(lambda: second.journal.writer == "http://127.0.0.1:8081")
    assert not first.journal.is_writer
    with pytest.raises(JournalFailed, match="the registry stops"):
        await first.register("b")
    await until(lambda: second.journal.is_writer)
    assert await second.register("b") == 2


async def test_a_writer_that_lost_its_group_without_noticing_is_fenced_by_the_log(run: Run, cluster: Kafka) -> None:
    """By its own clock it is still a member, and it has not read what the next writer wrote."""
    first = await run(8081)
    await until(lambda: first.journal.is_writer)
    await first.register("a")
    second = await run(8082)
    await until(lambda: second.journal.writer == "http://127.0.0.1:8081")
    own = {"client_id": "registry-8081"}
    lost = [cluster.on("Heartbeat", **own).hold(before=True), cluster.on("JoinGroup", **own).hold(before=True)]
    reads = cluster.on("Fetch", **own).hold()
    await until(lambda: lost[0].used > 0 and reads.used > 0)
    first.journal._member.lease_end_s += 3_600
    await until(lambda: second.journal.is_writer)
    assert await second.register("b") == 2
    assert first.journal.is_writer
    assert first.ids == {"a": 1}
    sent = len(cluster.requests("Produce", **own))
    late = asyncio.create_task(first.register("c"))
    await until(lambda: len(cluster.requests("Produce", **own)) > sent)
    reads.undo()
    with pytest.raises(NotTheWriter):
        await late
    await second.journal.wait_until_current()
    assert second.ids == {"a": 1, "b": 2}
    assert not first.journal.is_writer


@pytest.mark.parametrize("kind", ["close_before", "close_after", "drop_answer", "drop_request"])
async def test_an_append_without_an_answer_is_in_the_log_once(
    run: Run, cluster: Kafka, names: dict[str, Any], kind: str
) -> None:
    registry = await run(8081, append_ms=3_000)
    await until(lambda: registry.journal.is_writer)
    before = len(registry.records)
    rule = cluster.on("Produce", topic=names["topic"], times=2)
    match kind:
        case "close_before":
            rule.close_connection()
        case "close_after":
            rule.close_connection(after=True)
        case "drop_answer":
            rule.drop_answer()
        case "drop_request":
            rule.drop_request()
    assert await registry.register("a") == 1
    await registry.journal.wait_until_current()
    assert len(registry.records) == before + 1
    assert registry.journal.is_writer


async def test_too_few_replicas_are_a_reason_and_leave_nothing_behind(
    run: Run, cluster: Kafka, names: dict[str, Any]
) -> None:
    registry = await run(8081, append_ms=700)
    await until(lambda: registry.journal.is_writer)
    rule = cluster.on("Produce", topic=names["topic"]).fail("NOT_ENOUGH_REPLICAS")
    with pytest.raises(JournalFailed, match=r"not written: .*NOT_ENOUGH_REPLICAS"):
        await registry.register("a")
    rule.undo()
    assert registry.journal.is_writer
    assert await registry.register("b") == 1
    assert registry.ids == {"b": 1}


async def test_an_open_outcome_is_known_before_the_next_decision(
    run: Run, cluster: Kafka, names: dict[str, Any]
) -> None:
    """The record is appended, and its answer and those of all repetitions are lost: the next id is not given twice."""
    registry = await run(8081, append_ms=500)
    await until(lambda: registry.journal.is_writer)
    held = cluster.on("Fetch", client_id="registry-8081").hold()
    await until(lambda: held.used > 0)
    rule = cluster.on("Produce", topic=names["topic"]).close_connection(after=True)
    with pytest.raises(JournalFailed, match="not known yet whether it was written"):
        await registry.register("a")
    assert not registry.journal.is_writer
    assert registry.ids == {}
    with pytest.raises(NotTheWriter):
        await registry.register("b")
    rule.undo()
    held.undo()
    await until(lambda: registry.journal.is_writer)
    assert registry.ids == {"a": 1}
    assert await registry.register("b") == 2


@pytest.mark.parametrize("is_appended", [True, False])
async def test_a_cancelled_append_is_known_before_the_next_decision(
    run: Run, cluster: Kafka, names: dict[str, Any], is_appended: bool
) -> None:
    registry = await run(8081)
    await until(lambda: registry.journal.is_writer)
    rule = cluster.on("Produce", topic=names["topic"], times=1)
    if is_appended:
        rule.drop_answer()
    else:
        rule.drop_request()
    task = asyncio.create_task(registry.register("a"))
    await until(lambda: rule.used == 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until(lambda: registry.journal.is_writer)
    await registry.journal.wait_until_current()
    assert registry.ids == ({"a": 1} if is_appended else {})
    assert await registry.register("b") == len(registry.ids)


async def test_a_new_writer_decides_nothing_before_it_has_read_what_the_last_one_wrote(
    run: Run, cluster: Kafka, names: dict[str, Any]
) -> None:
    first = NumberingRegistry(cluster.bootstrap_servers, settings(8081, **names))
    async with running(first):
        await until(lambda: first.journal.is_writer)
        second = await run(8082)
        await until(lambda: second.journal.writer is not None)
        reads = cluster.on("Fetch", client_id="registry-8082").hold()
        await until(lambda: reads.used > 0)
        assert await first.register("a") == 1
    await until(lambda: bool(cluster.requests("Produce", client_id="registry-8082")))
    await until(lambda: second.journal._writing.term is not None)
    assert second.ids == {}
    assert not second.journal.is_writer
    with pytest.raises(NotTheWriter):
        await second.register("b")
    reads.undo()
    await until(lambda: second.journal.is_writer)
    assert await second.register("b") == 2


async def test_a_fenced_writer_answers_what_is_in_the_log(run: Run, cluster: Kafka) -> None:
    """Its record was appended, the answer is lost, and another term begins before the record is sent again."""
    first = await run(8081, append_ms=3_000)
    await until(lambda: first.journal.is_writer)
    second = await run(8082)
    reads = cluster.on("Fetch", client_id="registry-8081").hold()
    lost = cluster.on("Produce", client_id="registry-8081", times=1).drop_answer()
    await until(lambda: reads.used > 0)
    term = first.journal._writing.term
    assert term is not None
    late = asyncio.create_task(first.register("a"))
    await until(lambda: lost.used == 1)
    await second.journal._writing.take_over()
    await until(lambda: term.phase is Phase.OVER)
    reads.undo()
    assert await late == 1
    await second.journal.wait_until_current()
    assert second.ids == {"a": 1}


async def test_a_writer_without_heartbeats_stops_before_another_can_be_elected(run: Run, cluster: Kafka) -> None:
    registry = await run(8081)
    await until(lambda: registry.journal.is_writer)
    own = {"client_id": "registry-8081"}
    lost = [cluster.on("Heartbeat", **own).hold(before=True), cluster.on("JoinGroup", **own).hold(before=True)]
    await until(lambda: not registry.journal.is_writer)
    assert registry.journal.writer is None
    with pytest.raises(NotTheWriter):
        await registry.register("a")
    for rule in lost:
        rule.undo()
    await until(lambda: registry.journal.is_writer)
    assert await registry.register("a") == 1


async def test_brokers_that_fail_one_after_the_other_interrupt_no_registry_for_good(
    run: Run, cluster: Kafka, names: dict[str, Any]
) -> None:
    registries = [await run(port) for port in (8081, 8082)]
    await until(lambda: any(one.journal.is_writer for one in registries))
    given: list[int] = []

    async def registered(schema: str) -> None:
        async with asyncio.timeout(SECONDS_MAX):
            while True:
                for one in registries:
                    try:
                        given.append(await one.register(schema))
                    except (NotTheWriter, JournalFailed):
                        continue
                    return
                await asyncio.sleep(0.01)

    for number, broker in enumerate(cluster.brokers):
        await registered(f"before {number}")
        await blocking(broker.kill)
        await registered(f"during {number}")
        await blocking(broker.start)
        await blocking(cluster.wait_for, lambda: len(cluster.in_sync(names["topic"])) == 3)
    assert given == list(range(1, 7))
    for one in registries:
        await one.journal.wait_until_current()
    assert registries[0].records == registries[1].records


async def test_members_that_were_removed_from_their_group_join_it_again(
    run: Run, cluster: Kafka, names: dict[str, Any]
) -> None:
    registry = await run(8081)
    await until(lambda: registry.journal.is_writer)
    first = registry.journal._member._member_id
    await blocking(cluster.expel, names["group"])
    await until(lambda: registry.journal._member._member_id not in ("", first) and registry.journal.is_writer)
    assert await registry.register("a") == 1


async def test_a_topic_that_was_deleted_ends_the_registry_with_the_reason(
    cluster: Kafka, names: dict[str, Any]
) -> None:
    registry = NumberingRegistry(cluster.bootstrap_servers, settings(8081, **names))
    async with running(registry) as task:
        await until(lambda: registry.journal.is_writer)
        await registry.register("a")
        async with a_client(cluster) as client:
            await delete_topics(client, [names["topic"]], if_exists=False)
            await ensure_topic(client, settings(8081, **names), ListLog())
        async with asyncio.timeout(SECONDS_MAX):
            await asyncio.wait([task])
        with pytest.raises(JournalFailed, match="restart this registry"):
            task.result()
        with pytest.raises(JournalFailed, match="restart this registry"):
            await registry.journal.append(b"k", b"v")


async def test_a_topic_that_was_created_again_is_not_taken_for_the_former_one(
    cluster: Kafka, names: dict[str, Any]
) -> None:
    """It has records at the offsets that would be read next, and was there before any of them was requested."""
    registry = NumberingRegistry(cluster.bootstrap_servers, settings(8081, **names))
    async with running(registry) as task:
        await until(lambda: registry.journal.is_writer)
        await registry.register("a")
        reads = cluster.on("Fetch", client_id="registry-8081").hold()
        await until(lambda: reads.used > 0)
        async with a_client(cluster) as client:
            await delete_topics(client, [names["topic"]], if_exists=False)
            await ensure_topic(client, settings(8081, **names), ListLog())
        for number in range(5):
            await blocking(lambda number=number: cluster.produce(names["topic"], ["{}"], key=f"k{number}"))  # type: ignore[misc]
        before = list(registry.records)
        reads.undo()
        async with asyncio.timeout(SECONDS_MAX):
            await asyncio.wait([task])
        with pytest.raises(JournalFailed, match="restart this registry"):
            task.result()
        assert registry.records == before


async def test_a_term_is_renewed_before_brokers_forget_its_epoch(run: Run) -> None:
    registry = await run(8081, renewal_ms=300)
    await until(lambda: registry.journal.is_writer)
    term = registry.journal._writing.term
    await until(lambda: registry.journal._writing.term is not term and registry.journal.is_writer)
    assert await registry.register("a") == 1


async def test_two_registries_with_one_url_elect_no_writer_and_say_so(run: Run) -> None:
    first = await run(8081)
    await until(lambda: first.journal.is_writer)
    second = await run(8081)
    await until(lambda: "no registry elected" in dict(second.log.at("error")))
    await until(lambda: not first.journal.is_writer and not second.journal.is_writer)
    assert first.journal.writer is None


async def test_a_registry_that_is_not_eligible_reads_and_never_writes(
    cluster: Kafka, names: dict[str, Any], run: Run
) -> None:
    one = settings(8081, **names)
    reader = NumberingRegistry(
        cluster.bootstrap_servers, one._replace(identity=one.identity._replace(is_eligible=False))
    )
    async with running(reader):
        await until(lambda: reader.journal._member._generation > 0)
        assert reader.journal.writer is None
        writer = await run(8082)
        await until(lambda: writer.journal.is_writer)
        await writer.register("a")
        await reader.journal.wait_until_current()
        assert reader.ids == {"a": 1}
        assert not reader.journal.is_writer


def test_the_default_topic_is_that_of_other_registries() -> None:
    assert TOPIC == "_schemas"
