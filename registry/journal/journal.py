"""The journal of a registry over a topic of any Kafka cluster; implements the port `Journal`.

    journal = TopicJournal(access, connect, JournalSettings(identity), apply, now_ms, log)
    running = tasks.create_task(journal.run())     # until it is cancelled: then it leaves the group
    await journal.wait_until_current()             # the topic is there, and was read
    offset = await journal.append(key, value)

`run` owns four tasks: reading, the membership, the terms of this writer, and the start. Each has connections of its
own, since a request waits behind those before it on a connection, and a JoinGroup or Fetch waits long.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.client.cluster import Connect
from sordini.client.cluster_core import Access
from sordini.client.errors import ClientError
from sordini.client.retries import Backoff
from sordini.protocol.records.replay import Replay, Stamp
from sordini.protocol.types import TopicPartition
from sordini.registry.journal.member import Member
from sordini.registry.journal.reading import Reading
from sordini.registry.journal.settings import JournalSettings
from sordini.registry.journal.topic import ensure_topic
from sordini.registry.journal.writing import Writing
from sordini.registry.ports import Apply, JournalFailed, NotTheWriter
from sordini.replication.ports import Logger

_PAUSE_MS: Final = 50
_PAUSE_MS_MAX: Final = 2_000
_STOPPED: Final = "the registry stops"


class TopicJournal:
    """The topic as one registry reads it, and writes to it when it is elected."""

    def __init__(
        self,
        access: Access,
        connect: Connect,
        settings: JournalSettings,
        apply: Apply,
        now_ms: Callable[[], int],
        log: Logger,
    ) -> None:
        """`access` has no limit for answers: each request here has its own."""
        self._settings = settings
        self._log = log
        self._clusters = [ClusterClient(access, connect) for _ in range(4)]
        fetching, grouped, producing, self._asking = self._clusters
        self._changed = asyncio.Event()
        self._replay = Replay(apply, self._batch_read)
        self._reading = Reading(fetching, TopicPartition(settings.topic, 0), self._replay, log)
        self._writing = Writing(producing, settings, self._reading, now_ms, self._term_over)
        self._member = Member(grouped, settings, self._changed.set, log)
        self._has_topic = asyncio.Event()
        self._failure: str | None = None
        self._began_s = 0.0

    @property
    def is_writer(self) -> bool:
        """Whether this process may write now: elected, its term has begun, and its session is not due."""
        return self._member.is_writer and self._writing.is_ready and self._member.is_leased and self._failure is None

    @property
    def writer(self) -> str | None:
        """The URL of the registry that writes; None while none is known, or this one is about to."""
        if self._member.is_writer:
            return self._settings.identity.url if self.is_writer else None
        elected = self._member.assignment.writer
        return None if elected is None else elected.url

    async def append(self, key: bytes, value: bytes | None) -> int:
        """Append a record; its offset, when it is committed and applied. Raises NotTheWriter and JournalFailed.

        After JournalFailed the record may be in the log or not; it is known before this process is the writer again.
        """
        self._check()
        if not self.is_writer:
            raise NotTheWriter(self.writer)
        return await self._writing.append(key, value, lambda: self.writer)

    async def wait_until_current(self) -> None:
        """Wait until everything up to the log end of now is applied. Raises JournalFailed."""
        try:
            async with asyncio.timeout(self._settings.read_ms / 1000):
                await self._has_topic.wait()
                self._check()
                await self._reading.wait_until_current(self._asking)
        except TimeoutError:
            self._check()
            problem = self._asking.problem or f"offset {self._reading.position} is reached"
            raise JournalFailed(f"topic '{self._settings.topic}' cannot be read to its end: {problem}") from None
        except ClientError as error:
            raise JournalFailed(f"topic '{self._settings.topic}' cannot be read: {error}") from None

    async def run(self) -> None:
        """Read, and write when elected, until cancelled. Raises JournalFailed: the process cannot go on."""
        self._failure = None
        try:
            await self._start()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._reading.run())
                tasks.create_task(self._member.run())
                tasks.create_task(self._keep_term())
        except JournalFailed as error:
            self._failure = str(error)
            raise
        except ExceptionGroup as group:
            failed, others = group.split(JournalFailed)
            if others is not None or failed is None:
                raise
            self._failure = str(failed.exceptions[0])
            raise JournalFailed(self._failure) from None
        finally:
            self._failure = self._failure or _STOPPED
            self._has_topic.set()
            for cluster in self._clusters:
                cluster.close()

    def _check(self) -> None:
        if self._failure is not None:
            raise JournalFailed(self._failure)

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(self._settings.start_ms / 1000):
                await ensure_topic(self._asking, self._settings, self._log)
        except TimeoutError:
            problem = self._asking.problem or "no broker answers"
            raise JournalFailed(f"topic '{self._settings.topic}' is neither found nor created: {problem}") from None
        except ClientError as error:
            raise JournalFailed(str(error)) from None
        self._has_topic.set()

    def _term_over(self) -> None:
        self._member.interrupted()
        self._changed.set()

    def _batch_read(self, stamp: Stamp, offset: int) -> None:
        self._writing.batch_read(stamp, offset)

    async def _keep_term(self) -> None:
        """Begin a term when this process is elected, and another one when the last is over or old."""
        backoff = Backoff(_PAUSE_MS, _PAUSE_MS_MAX)
        problem = ""
        while True:
            self._changed.clear()
            # Without a lease another registry may be elected, and would be interrupted by a term of this one.
            if not self._member.is_writer or not self._member.is_leased:
                await self._wait_for_change(self._settings.heartbeat_ms)
            elif self._writing.is_ready and not self._is_old():
                await self._wait_for_change(self._settings.renewal_ms)
            else:
                try:
                    await self._begin_term()
                except JournalFailed as error:
                    if str(error) != problem:
                        problem = str(error)
                        self._log.warning("registry elected, and cannot write yet", reason=problem)
                    await asyncio.sleep(backoff.next_ms() / 1000)
                else:
                    problem = ""
                    backoff.reset()

    async def _wait_for_change(self, at_most_ms: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_ms / 1000):
                await self._changed.wait()

    async def _begin_term(self) -> None:
        await self._writing.take_over()
        self._began_s = asyncio.get_running_loop().time()
        term = self._writing.term
        assert term is not None, "take_over begins one"
        offset, url = self._reading.position, self._settings.identity.url
        self._log.info("registry writes", offset=offset, producer_epoch=term.producer_epoch, url=url)

    def _is_old(self) -> bool:
        return asyncio.get_running_loop().time() - self._began_s >= self._settings.renewal_ms / 1000
