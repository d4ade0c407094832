"""The topics of a job's source: first and end offsets, and whether they are still the same topics."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sordini.pipeline.errors import PipelineError, TopicRecreated
from sordini.pipeline.jobs.job import Job, JobSource
from sordini.pipeline.jobs.pending_records import Extent, PendingRecords, pending_of, sentence_of
from sordini.pipeline.source import offset_lookup
from sordini.pipeline.source.client import Client
from sordini.pipeline.source.options import Edge, OffsetsOrEdge, SourceOptions, Timestamps, read_options
from sordini.pipeline.source.positions import Offsets
from sordini.protocol.types import TopicPartition

__all__ = ["Offsets", "PendingRecords", "RecordsLost", "SourceTopics", "assignment", "offsets_text"]


_TRIES_MAX: Final = 4
_RETRY_SECONDS: Final = 0.5
"""A new leader may report an older end for a moment; the request is repeated before records count as lost."""


class RecordsLost(PipelineError):
    """Unread records were lost, and the job is configured to stop then."""


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
            for tries_left in reversed(range(_TRIES_MAX)):
                extent = self._extent(client, job)
                recreated = [] if reached is None else self._recreated(known_ids, extent.ends.topic_ids)
                pending = pending_of(extent, reached, recreated)
                if not pending.ends_behind or not tries_left:
                    break
                time.sleep(_RETRY_SECONDS)
        if pending.notices and self.fail_on_data_loss:
            raise RecordsLost(f"{'; '.join(pending.notices)} (source.fail_on_data_loss: false continues regardless)")
        gone = sorted(topic for topic in pending.absent if job.source.reads(topic))
        return pending._replace(notices=(*pending.notices, sentence_of(gone))) if gone else pending

    def _extent(self, client: Client, job: Job) -> Extent:
        first = offset_lookup.start(client, replace(self.options, starting=starting(job.source))).offsets
        begins = offset_lookup.start(client, replace(self.options, starting=Edge.EARLIEST)).offsets
        return Extent(first, begins, offset_lookup.ends(client, self.options))

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
            ends = offset_lookup.ends(client, self.options).offsets
        # Those that came between the two requests begin at 0.
        return {
            topic: {number: begins.get(topic, {}).get(number, 0) for number in each} for topic, each in ends.items()
        }, ends

    def left_of(self, start: Offsets, end: Offsets) -> Offsets:
        """Where the records between two positions begin that the topics still have; at their end where none is left."""
        begins, _ = self.extent()
        return {
            topic: {
                number: min(max(start.get(topic, {}).get(number, 0), begins.get(topic, {}).get(number, last)), last)
                for number, last in each.items()
            }
            for topic, each in end.items()
        }

    def commit(self, group: str, offsets: Offsets) -> None:
        """Commit offsets to a group without members, for tools that show lag.

        Raises Unreachable, Unauthorized, UnknownTopic, Refused.
        """
        named = {TopicPartition(topic, number): at for topic, each in offsets.items() for number, at in each.items()}
        with Client(self.options.client) as client:
            client.commit(group, named)

    def at_time(self, milliseconds: int) -> Offsets:
        """The first offsets at or after a time; the end offsets where there is none."""
        where = Timestamps(max(0, milliseconds), {}, or_latest=True)
        with Client(self.options.client) as client:
            return offset_lookup.start(client, replace(self.options, starting=where)).offsets


def starting(source: JobSource) -> OffsetsOrEdge:
    """The position of the first run, from the job file."""
    if source.starting in {"earliest", "latest"}:
        return Edge(source.starting)
    return Timestamps(max(0, int(source.starting)), {}, or_latest=True)  # Negative ones are names of offsets.


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
