"""The topics of a job's source: first and end offsets, and whether they are still the same topics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from sordini.pipeline.errors import PipelineError, TopicRecreated
from sordini.pipeline.jobs.job import Job, JobSource
from sordini.pipeline.source import offset_lookup
from sordini.pipeline.source.client import Client
from sordini.pipeline.source.options import Edge, OffsetsOrEdge, SourceOptions, Timestamps, read_options
from sordini.pipeline.source.positions import Offsets

__all__ = ["Offsets", "PendingRecords", "RecordsLost", "SourceTopics", "assignment", "offsets_text"]


class RecordsLost(PipelineError):
    """Unread records were lost, and the job is configured to stop then."""


class PendingRecords(NamedTuple):
    """The records to read: start, end, and the topics' ids."""

    start: Offsets
    end: Offsets
    topic_ids: dict[str, str]
    notices: tuple[str, ...] = ()
    """Sentences about lost records, if the job continues regardless."""
    recreated: tuple[str, ...] = ()
    """Topics that were deleted and created again, and are read from their start."""


@dataclass(frozen=True)
class SourceTopics:
    """The topics of a job's source."""

    options: SourceOptions
    fail_on_data_loss: bool

    @classmethod
    def of(cls, job: Job) -> SourceTopics:
        """Read the source's settings as its options are. Raises BadSetting."""
        return cls(read_options(batch_options(job.source), streaming=False), job.source.fail_on_data_loss)

    def check(self) -> None:
        """Check with one attempt that a broker responds and has the topics.

        Raises Unreachable, Unauthorized, UnknownTopic, BadSetting.
        """
        with Client(self.options.client) as client:
            client.check()
            offset_lookup.subscribed(client, self.options.subscription)

    def pending(self, job: Job, reached: Offsets | None, known_ids: Mapping[str, str]) -> PendingRecords:
        """The records between the job's position (None: it never ran) and the current log ends.

        Raises Unreachable, UnknownTopic, Lost where retention passed the job, TopicRecreated.
        """
        with Client(self.options.client) as client:
            ends = offset_lookup.ends(client, self.options)
            begins = offset_lookup.start(client, replace(self.options, starting=Edge.EARLIEST))
            first = offset_lookup.start(client, replace(self.options, starting=starting(job.source))).offsets
        notices: list[str] = []
        recreated = [] if reached is None else self._recreated(known_ids, ends.topic_ids)
        start: Offsets = {}
        for topic, partitions in ends.offsets.items():
            done = {} if topic in recreated or reached is None else reached.get(topic, {})
            otherwise = first if reached is None else begins.offsets
            start[topic] = {number: done.get(number, otherwise[topic][number]) for number in partitions}
        notices += [f"'{topic}' was deleted and created again: it is read from its start" for topic in recreated]
        notices += _into_bounds(start, begins.offsets, ends.offsets)
        if notices and self.fail_on_data_loss:
            raise RecordsLost(f"{'; '.join(notices)} (source.fail_on_data_loss: false continues regardless)")
        return PendingRecords(start, ends.offsets, ends.topic_ids, tuple(notices), tuple(recreated))

    def recreated(self, known_ids: Mapping[str, str]) -> list[str]:
        """The topics whose id has changed. Raises TopicRecreated, unless the job continues regardless."""
        with Client(self.options.client) as client:
            return self._recreated(known_ids, offset_lookup.ends(client, self.options).topic_ids)

    def _recreated(self, known_ids: Mapping[str, str], ids: Mapping[str, str]) -> list[str]:
        recreated = [topic for topic, known in known_ids.items() if ids.get(topic, known) != known]
        if recreated and self.fail_on_data_loss:
            raise TopicRecreated(recreated[0], known_ids[recreated[0]], ids[recreated[0]])
        return recreated

    def extent(self) -> tuple[Offsets, Offsets]:
        """The current first and end offsets of the partitions."""
        with Client(self.options.client) as client:
            begins = offset_lookup.start(client, replace(self.options, starting=Edge.EARLIEST)).offsets
            return begins, offset_lookup.ends(client, self.options).offsets

    def at_time(self, milliseconds: int) -> Offsets:
        """The first offsets at or after a time; the end offsets where there is none."""
        where = Timestamps(milliseconds, {}, or_latest=True)
        with Client(self.options.client) as client:
            return offset_lookup.start(client, replace(self.options, starting=where)).offsets


def starting(source: JobSource) -> OffsetsOrEdge:
    """The position of the first run, from the job file."""
    if source.starting in {"earliest", "latest"}:
        return Edge(source.starting)
    return Timestamps(int(source.starting), {}, or_latest=True)


def batch_options(source: JobSource) -> dict[str, str]:
    """The options of a batch read over all the source's topics, in either format's names."""
    what = {"subscribePattern": source.pattern} if source.pattern else {"subscribe": ",".join(source.topics)}
    return {
        **source.options,
        **what,
        "kafka.bootstrap.servers": source.bootstrap,
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
    }


def offsets_text(offsets: Offsets) -> str:
    """Offsets as sources take them."""
    return json.dumps({topic: {str(number): at for number, at in each.items()} for topic, each in offsets.items()})


def assignment(offsets: Offsets) -> str:
    """The partitions that offsets name, as sources take them for `assign`."""
    return json.dumps({topic: sorted(each) for topic, each in offsets.items()})


def _into_bounds(start: Offsets, begins: Offsets, ends: Offsets) -> list[str]:
    """Move positions to existing records; returns sentences with the partitions and reasons."""
    notices = []
    for topic, partitions in start.items():
        for number, at in partitions.items():
            first, last = begins[topic][number], ends[topic][number]
            if at < first:
                notices.append(f"{topic}-{number}: offsets {at} to {first - 1} were deleted before they were read")
                partitions[number] = first
            elif at > last:
                notices.append(f"{topic}-{number} ends at offset {last}, but was read up to {at}")
                partitions[number] = last
    return notices
