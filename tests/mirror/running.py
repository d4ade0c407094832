"""A mirror in the test's process, on a thread with a loop of its own, and what several tests ask of clusters."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from sordini.client.addresses import parse_bootstrap
from sordini.client.errors import ClientError
from sordini.client.sockets import connect
from sordini.mirror.figures import Figures
from sordini.mirror.mirror import Mirror
from sordini.mirror.naming import Selection
from sordini.mirror.plan import EXCLUDED_GROUPS, Access, Plan, Source, patterns
from sordini.packs.packed_records import KitRecord
from sordini.testing import Kafka

SECONDS_MAX = 60.0


def access(alias: str, kafka: Kafka) -> Access:
    return Access(alias, tuple(parse_bootstrap(kafka.bootstrap_servers)), connect)


def source(
    alias: str, kafka: Kafka, topics: Sequence[str] = (".*",), groups: Sequence[str] = (".*",), **others: Any
) -> Source:
    chosen = Selection(patterns(tuple(groups)), patterns(EXCLUDED_GROUPS))
    return Source(access(alias, kafka), Selection(patterns(tuple(topics))), chosen, **others)


def plan(target: Kafka, *sources: Source, alias: str = "central", **others: Any) -> Plan:
    """Without heartbeats and in a hurry, unless a test says otherwise."""
    values: dict[str, Any] = {"commit_s": 0.05, "refresh_s": 0.2, "groups_s": 0.1, "heartbeat_s": 0.0, **others}
    return Plan("test", access(alias, target), sources, **values)


class RunningMirror:
    """A mirror that copies while the `with` block lasts."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.notices: list[str] = []
        self.failure: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._ready = threading.Event()
        self._mirror: Mirror | None = None
        self._task: asyncio.Task[None] | None = None

    def _run(self) -> None:
        async def main() -> None:
            self._mirror = Mirror(self.plan, self.notices.append)
            self._task = asyncio.create_task(self._mirror.run())
            self._ready.set()
            try:
                await self._task
            except asyncio.CancelledError:
                pass
            except ClientError as error:
                self.failure = error

        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(main())

    def start(self) -> Self:
        self._thread.start()
        assert self._ready.wait(SECONDS_MAX)
        return self

    def stop(self) -> None:
        """As SIGTERM: what is under way is committed."""
        if self._thread.is_alive() and self._mirror is not None:
            self._loop.call_soon_threadsafe(self._mirror.stop)
        self._join()

    def kill(self) -> None:
        """Its connections are closed in the middle of whatever it does."""
        if self._thread.is_alive() and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._join()

    def _join(self) -> None:
        self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive(), self.notices

    @property
    def figures(self) -> list[Figures]:
        assert self._mirror is not None
        return [flow.figures for flow in self._mirror.flows]

    @property
    def is_copying(self) -> bool:
        return all(figures.is_running for figures in self.figures)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def eventually(holds: Callable[[], object], what: Callable[[], object] = lambda: "") -> None:
    """Wait until something holds; bounded."""
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


def has_topic(kafka: Kafka, topic: str) -> bool:
    return topic in topics_of(kafka)


def topics_of(kafka: Kafka) -> dict[str, int]:
    """The number of partitions by topic."""
    from confluent_kafka.admin import AdminClient

    found = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=10)
    return {name: len(topic.partitions) for name, topic in found.topics.items()}


def records_of(kafka: Kafka, topic: str) -> list[KitRecord]:
    """The committed records; none while there is no such topic."""
    return kafka.records(topic) if has_topic(kafka, topic) else []


def values_of(kafka: Kafka, topic: str) -> list[str | None]:
    return [record.text for record in records_of(kafka, topic)]


def wait_for_values(kafka: Kafka, topic: str, values: Sequence[str]) -> None:
    """Wait until a topic has just these values, in their order."""
    eventually(lambda: len(values_of(kafka, topic)) >= len(values), lambda: values_of(kafka, topic))
    assert values_of(kafka, topic) == list(values)
