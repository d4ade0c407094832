"""Appends records with the producer epoch of a term, and begins terms.

    take_over()       InitProducerId: a term with a higher epoch; then its NOOP, which ends all terms before
    append(key, ...)  one record at a time, sent again until it was read, refused, or time is up

Without an answer the same batch is sent again, with its sequence. What is still open when time is up, or when the
caller is cancelled, ends the term: `append` then raises, and the next term's NOOP decides whether the record is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from sordini.admin.cluster_client import RULES, ClusterClient
from sordini.client.errors import ClientError, Refused, Unreachable, check, too_late
from sordini.client.record_requests import PRODUCE_BY_NAME, only_partition, produce_request, produced_partitions
from sordini.client.retries import Backoff
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.replay import Stamp
from sordini.protocol.types import TopicPartition
from sordini.registry.journal.reading import Reading, leader_of
from sordini.registry.journal.settings import JournalSettings
from sordini.registry.journal.term import Outcome, Phase, Term
from sordini.registry.ports import JournalFailed, NotTheWriter

NOOP_KEY: Final = b'{"keytype":"NOOP","magic":0}'
"""As other registries write it, with a null value."""
_INIT_MAX: Final = 5
"""The last InitProducerId without two-phase commit (KIP-939)."""
_TRANSACTION_TIMEOUT_MS: Final = 60_000
"""Required by the request; no transaction is ever begun."""
ATTEMPTS: Final = 3
"""Within the time of an append, for a broker that does not answer."""
_PAUSE_MS: Final = 20
_PAUSE_MS_MAX: Final = 500
_TEMPORARY: Final = RULES.codes | {ErrorCode.CONCURRENT_TRANSACTIONS}


class Writing:
    """The terms of this process, one after the other."""

    def __init__(
        self,
        cluster: ClusterClient,
        settings: JournalSettings,
        reading: Reading,
        now_ms: Callable[[], int],
        over: Callable[[], None],
    ) -> None:
        """`over` is called when a term is over before another one began."""
        self.term: Term | None = None
        self._cluster = cluster
        self._settings = settings
        self._partition = TopicPartition(settings.topic, 0)
        self._reading = reading
        self._now_ms = now_ms
        self._over = over
        self._lock = asyncio.Lock()
        self._problem = ""

    @property
    def is_ready(self) -> bool:
        """Whether a term has begun, and is not known to be over."""
        return self.term is not None and self.term.phase is Phase.WRITING

    def batch_read(self, stamp: Stamp, offset: int) -> None:
        """For `Replay`: a batch of a producer was read."""
        if self.term is not None:
            self.term.read(stamp, offset)
            if self.term.phase is Phase.OVER:
                self._over()

    async def take_over(self) -> None:
        """Begin a term: when this returns, all records of earlier terms are applied. Raises JournalFailed."""
        async with self._lock:
            try:
                async with asyncio.timeout(self._settings.append_ms / 1000):
                    self.term = term = await self._open()
            except TimeoutError:
                raise JournalFailed(f"no producer id: {self._cluster.problem or 'no answer in time'}") from None
            except ClientError as error:
                raise JournalFailed(f"no producer id: {error}") from None
            await self._write(term, NOOP_KEY, None)

    async def append(self, key: bytes, value: bytes | None, writer: Callable[[], str | None]) -> int:
        """Append a record of the current term; `writer` is called for the error. Raises NotTheWriter, JournalFailed."""
        async with self._lock:
            term = self.term
            if term is None or term.phase is not Phase.WRITING:
                raise NotTheWriter(writer())
            try:
                return await self._write(term, key, value)
            except _Fenced:
                raise NotTheWriter(writer()) from None

    async def _open(self) -> Term:
        request = InitProducerIdRequest(
            transactional_id=self._settings.transactional_id,
            transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
        )
        backoff = Backoff(_PAUSE_MS, _PAUSE_MS_MAX)
        while True:
            try:
                link = await self._cluster.transaction_coordinator(self._settings.transactional_id)
                answer: InitProducerIdResponse = await link.ask(request, at_most=_INIT_MAX)
                check(f"transactional id '{self._settings.transactional_id}'", answer.error_code)
                return Term(answer.producer_id, answer.producer_epoch)
            except ClientError as error:
                if not isinstance(error, Unreachable) and getattr(error, "code", None) not in _TEMPORARY:
                    raise
                self._forget(error)
                self._cluster.problem = str(error)
            await asyncio.sleep(backoff.next_ms() / 1000)

    async def _write(self, term: Term, key: bytes, value: bytes | None) -> int:
        stamp = term.begin()
        record = Record(0, self._now_ms(), key, value)
        batch = build_batch(
            [record],
            producer_id=stamp.producer_id,
            producer_epoch=stamp.producer_epoch,
            base_sequence=stamp.sequence,
        )
        self._problem = "no answer in time"
        try:
            async with asyncio.timeout(self._settings.append_ms / 1000):
                await self._send_until_known(term, batch)
        except TimeoutError:
            if term.abandon():
                raise JournalFailed(f"not written: {self._problem}") from None
            raise JournalFailed(f"it is not known yet whether it was written: {self._problem}") from None
        finally:
            # Cancelled, or failed: an open outcome ends the term.
            term.abandon()
            if term.phase is Phase.OVER:
                self._over()
        assert term.offset is not None
        return term.offset

    async def _send_until_known(self, term: Term, batch: bytes) -> None:
        """Return when the batch was read. Raises JournalFailed, _Fenced."""
        backoff = Backoff(_PAUSE_MS, _PAUSE_MS_MAX)
        while term.offset is None:
            if term.phase is Phase.OVER:
                await self._resolve(term)
                return
            match await self._send(term, batch):
                case Outcome.READ_IT:
                    await self._reading.wait_for(lambda: term.offset is not None or term.phase is Phase.OVER)
                case Outcome.AGAIN:
                    await asyncio.sleep(backoff.next_ms() / 1000)
                case Outcome.REFUSED | Outcome.BROKEN:
                    raise JournalFailed(self._problem)
                case Outcome.FENCED:
                    pass

    async def _resolve(self, term: Term) -> None:
        """The fence of a later term is in the log: what was appended of this one is before it. Raises as `_write`."""
        try:
            await self._reading.wait_until_current(self._cluster)
        except ClientError as error:
            raise JournalFailed(f"another registry writes, and the log cannot be read: {error}") from None
        if term.offset is None:
            raise _Fenced("another registry was elected and has written since")

    async def _send(self, term: Term, batch: bytes) -> Outcome:
        """One attempt."""
        subject = f"writing to {self._partition}"
        try:
            link = await leader_of(self._cluster, self._partition)
        except ClientError as error:
            self._forget(error)
            self._problem = str(error)
            return Outcome.AGAIN
        attempt_ms = self._settings.append_ms // ATTEMPTS
        request = produce_request({self._partition: batch}, attempt_ms)
        try:
            async with asyncio.timeout(attempt_ms / 1000):
                answer = await link.ask(request, **PRODUCE_BY_NAME)
            row = only_partition(produced_partitions(answer), subject)
        except (ClientError, TimeoutError) as error:
            term.unanswered()
            found = error if isinstance(error, ClientError) else too_late(str(link.address), attempt_ms / 1000)
            self._forget(found)
            self._problem = str(found)
            return Outcome.AGAIN
        except BaseException:  # Raised again - cancelled, or time is up: the request may have arrived.
            term.unanswered()
            raise
        refused = Refused(subject, row.error_code, row.error_message)
        if row.error_code:
            self._problem = str(refused)
        return term.answered(refused.code)

    def _forget(self, error: ClientError) -> None:
        if isinstance(error, Unreachable):
            self._cluster.close()
            self._cluster.cluster_map.forget()


class _Fenced(JournalFailed):
    """Certainly not in the log: another term has begun."""
