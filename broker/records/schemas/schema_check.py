"""The check of produced records by their schemas: by the ids on the loop or in a record job, by values in a DecodeJob.

With `full` a child process decodes every batch. The texts of schemas are read and kept from the first such batch on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sordini.broker.records.jobs.queue import RETRY, CpuAllowance, JobQueue
from sordini.broker.records.schemas.registered_ids import RegisteredIds
from sordini.broker.records.schemas.registered_texts import (
    JOB_CHARACTERS_MAX,
    ChosenTexts,
    RegisteredTexts,
    TextsTooLong,
    UnknownText,
)
from sordini.broker.records.schemas.schema_topic import SchemaTopic, SchemaTopicUnread
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.errors import BrokerError, ErrorCode, RecordsRefused
from sordini.protocol.records.jobs import Decoded, DecodeJob, FramesJob
from sordini.protocol.records.replay import Replay
from sordini.protocol.records.schema_frames import Frames, frames_in
from sordini.protocol.records.work_budget import INLINE_STEPS, BudgetExceeded, WorkBudget
from sordini.replication.partition import Partition
from sordini.replication.ports import BrokerLinks, Logger

FRAMES_STEPS: Final = INLINE_STEPS // 10
"""What ids may take to be found on the loop, once a request is not answered at once."""
FRESH_MS: Final = 5_000
"""What was read so long ago is not current any more: an id may have been deleted since."""


class SchemasNotCurrent(BudgetExceeded):
    """The registry's topic has to be read before these records can be checked. Nothing has been changed."""


class SchemaCheck:
    """The ids of one cluster's registry, as far as a check needed them."""

    def __init__(
        self,
        topic: str,
        metadata: MetadataCache,
        links: BrokerLinks,
        monotonic_ms: Callable[[], int],
        log: Logger,
        decoding: JobQueue,
    ) -> None:
        """`topic` is the one with the registry's records; `decoding` is a queue for DecodeJobs alone."""
        self.decoding = decoding
        self._keeps_texts = False
        self._is_not_decoding = False
        self._ids = RegisteredIds()
        self._topic = SchemaTopic(topic, metadata, links, "broker-schemas", self._begin)
        self._monotonic_ms = monotonic_ms
        self._read_ms: int | None = None
        self._log = log
        self._is_failing = False

    def close(self) -> None:
        self._topic.close()

    def misfit(
        self, partition: Partition, records: memoryview, budget: WorkBudget, *, has_schemas: bool
    ) -> BrokerError | None:
        """The error of records that do not have registered ids, or cannot be read; by what is known.

        Raises SchemasNotCurrent where the topic has to be read first, which it was `has_schemas`, and BudgetExceeded.
        """
        if partition.settings.rules.decode_values:
            raise BudgetExceeded  # It takes libraries, which only a child process has.
        try:
            frames = frames_in(records, partition.settings.rules.expanded_bytes_max, budget)
        except BrokerError as error:
            return error
        if not has_schemas and not self._is_fresh():
            raise SchemasNotCurrent
        unknown = self._unknown(partition, frames)
        if unknown and not has_schemas:
            raise SchemasNotCurrent
        return _refusal(partition, frames, unknown)

    async def check_later(
        self, partition: Partition, records: memoryview, jobs: JobQueue, allowance: CpuAllowance, address: str
    ) -> None:
        """As `misfit`, with what takes long done in child processes, and the topic read. Raises BrokerError."""
        rules = partition.settings.rules
        frames = await self._frames(records, rules.expanded_bytes_max, jobs, allowance, address)
        if rules.decode_values and not self._keeps_texts:
            self._keeps_texts = True
            self._topic.restart()
        is_known = not self._unknown(partition, frames) and not (rules.decode_values and self._lacks(partition, frames))
        if (not self._is_fresh() or not is_known) and (error := await self.read()) is not None:
            raise error
        refusal = _refusal(partition, frames, self._unknown(partition, frames))
        if refusal is not None:
            raise refusal
        if rules.decode_values and frames.ids:
            await self._decode(partition, records, frames, allowance, address)

    async def _frames(
        self, records: memoryview, expanded_bytes_max: int, jobs: JobQueue, allowance: CpuAllowance, address: str
    ) -> Frames:
        try:
            return frames_in(records, expanded_bytes_max, WorkBudget(FRAMES_STEPS))
        except BudgetExceeded:
            frames = await jobs.run(FramesJob(records, expanded_bytes_max), allowance, address)
            assert isinstance(frames, Frames)
            return frames

    async def _decode(
        self, partition: Partition, records: memoryview, frames: Frames, allowance: CpuAllowance, address: str
    ) -> None:
        """Have the values decoded. Raises BrokerError."""
        subject = subject_of(partition.name.topic)
        try:
            chosen = self._chosen(subject, frames)
        except UnknownText as error:
            listed = frames.ids[error.schema_id]
            rows = [(index, str(error)) for index in listed.first]
            raise RecordsRefused(ErrorCode.INVALID_RECORD, str(error), rows, listed.total) from None
        except TextsTooLong:
            why = f"the schemas of one batch have more than {JOB_CHARACTERS_MAX} characters: send fewer records"
            raise BrokerError(ErrorCode.MESSAGE_TOO_LARGE, why) from None
        job = DecodeJob(records, partition.settings.rules.expanded_bytes_max, chosen.schemas, chosen.places)
        try:
            decoded = await self.decoding.run(job, allowance.decoding, address)
        except BrokerError as error:
            if error.code == RETRY and not self._is_not_decoding:
                self._is_not_decoding = True
                self._log.warning("values not decoded", subject=subject, reason=str(error))
            raise
        self._is_not_decoding = False
        assert isinstance(decoded, Decoded)
        if decoded.total:
            message = f"values that their schemas of subject '{subject}' do not decode"
            raise RecordsRefused(ErrorCode.INVALID_RECORD, message, decoded.misfits, decoded.total)

    def _chosen(self, subject: str, frames: Frames) -> ChosenTexts:
        """The schemas of a record set. Raises UnknownText, and TextsTooLong."""
        chosen, texts = ChosenTexts(), self._ids.texts or RegisteredTexts()
        for schema_id in frames.ids:
            texts.add_to(chosen, self._ids.named(subject), schema_id)
        return chosen

    def _lacks(self, partition: Partition, frames: Frames) -> bool:
        """Whether a text is not known, or not yet."""
        try:
            self._chosen(subject_of(partition.name.topic), frames)
        except UnknownText:
            return True
        except TextsTooLong:
            return False
        return False

    async def read(self) -> BrokerError | None:
        """Read the topic to its end of now; the error for producers if that fails, upon which they send again."""
        began_ms = self._monotonic_ms()
        try:
            await self._topic.read()
        except SchemaTopicUnread as error:
            if not self._is_failing:
                self._is_failing = True
                self._log.warning("schemas not read", reason=str(error))
            return BrokerError(RETRY, f"schema ids cannot be checked: {error}")
        if self._is_failing:
            self._is_failing = False
            self._log.info("schemas read again")
        self._read_ms = began_ms
        return None

    def _is_fresh(self) -> bool:
        return self._read_ms is not None and self._monotonic_ms() - self._read_ms < FRESH_MS

    def _begin(self) -> Replay:
        self._ids = ids = RegisteredIds(RegisteredTexts() if self._keeps_texts else None)
        return Replay(ids.apply)

    def _unknown(self, partition: Partition, frames: Frames) -> list[int]:
        subject = subject_of(partition.name.topic)
        return [schema_id for schema_id in frames.ids if not self._ids.is_registered(subject, schema_id)]


def subject_of(topic: str) -> str:
    """The subject of a topic's values (TopicNameStrategy)."""
    return f"{topic}-value"


def _refusal(partition: Partition, frames: Frames, unknown: list[int]) -> RecordsRefused | None:
    """The error for records without an id, and with an unknown one; None if there are none."""
    if not unknown and not frames.unframed.total:
        return None
    subject = subject_of(partition.name.topic)
    rows = [(index, "the value does not begin with a schema id") for index in frames.unframed.first]
    for schema_id in unknown:
        why = f"schema id {schema_id} is not registered for subject '{subject}'"
        rows += [(index, why) for index in frames.ids[schema_id].first]
    count = frames.unframed.total + sum(frames.ids[schema_id].total for schema_id in unknown)
    message = f"values without a schema id that is registered for subject '{subject}'"
    return RecordsRefused(ErrorCode.INVALID_RECORD, message, sorted(rows), count)
