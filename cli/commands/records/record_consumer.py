"""The consumer of `sordini consume`: our own requests find the first and last offsets, aiokafka fetches the records.

A consumer without a group is assigned its offsets; a consumer in a group starts at the committed offsets. Records are
printed batch by batch, and a group's consumer commits what it has printed when it stops.

aiokafka retries forever without an error. So if no record has arrived for a while, a Metadata request checks the
topic: the command ends if the topic was deleted, or if the cluster does not answer and an end condition was given.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.admin.partition_offsets import OffsetRange, offset_ranges, offsets_for_times
from sordini.admin.topics.topic_descriptions import partitions_of
from sordini.cli.commands.records.aiokafka_clients import configure_aiokafka, stop_client
from sordini.cli.commands.records.line_formats import key_value_line, record_line, to_json, to_text, value_line
from sordini.cli.commands.records.schema_options import RecordCodecs
from sordini.cli.common.client_security import aiokafka_options
from sordini.cli.common.options import Client
from sordini.cli.common.terminal import check_reader, echo, is_raw, is_terminal
from sordini.client.errors import ClientError, Refused
from sordini.client.record_requests import READ_COMMITTED
from sordini.protocol.printable import shown_bytes
from sordini.protocol.types import TopicPartition
from sordini.schemas.codecs import ValueRefused
from sordini.system.clock import SystemClock
from sordini.system.named_tuple import NamedTuple

CLIENT_ID = "sordini-cli"
METADATA_AGE_MS = 5_000
WAIT_MS = 200
CHECK_ROUNDS = 50
"""After this many polls without a record (10 s) a Metadata request checks that the topic still exists."""
NO_LATER_RECORD = "{topic} has no record at or after that time, which is in the future: only new records are printed"
RECORDS_MAX = 2_000
"""Records printed between two checks of the stop conditions."""


class ConsumeOptions(NamedTuple):
    """What to read, and the conditions to stop."""

    topic: str
    start: tuple[str, int]
    group: str | None
    partitions: tuple[int, ...]
    count_max: int | None
    exit_at_end: bool
    silence_s: float | None
    read_committed: bool


class StartsAndEnds(NamedTuple):
    """The offsets of the partitions before anything is read: their ranges, and where to start."""

    ends: dict[TopicPartition, OffsetRange]
    starts: dict[TopicPartition, int]
    notices: Sequence[str] = ()
    """Where the start is not the requested one."""


def consume_records(
    client: Client,
    options: ConsumeOptions,
    form: str,
    separator: bytes,
    null: bytes,
    codecs: RecordCodecs,
    *,
    raw: bool,
) -> None:
    """Print records until a stop condition holds; escaped on a terminal, unless `raw`. Raises Failure."""
    show = bytes if is_raw(asked=raw) else shown_bytes
    show_key, show_value = to_text(codecs.key, show), to_text(codecs.value, show)
    key_in_json, value_in_json = to_json(codecs.key), to_json(codecs.value)
    lines: dict[str, Callable[[Any], bytes]] = {
        "value": lambda record: value_line(record, null, show_value),
        "key-value": lambda record: key_value_line(record, separator, null, show_key, show_value),
        "json": lambda record: record_line(record, key_in_json, value_in_json),
    }
    asyncio.run(_receive(client, options, lines[form], waits=codecs.waits))


async def _receive(client: Client, options: ConsumeOptions, line: Callable[[Any], bytes], *, waits: bool) -> None:
    found = await client.on_cluster(lambda cluster: _fetch_ranges(cluster, options))
    for notice in found.notices:
        echo(f"sordini: {notice}", err=True)
    from aiokafka.errors import KafkaError  # type: ignore[import-untyped]

    if is_terminal(sys.stderr) and options.start[0] == "end" and options.group is None:
        echo("Waiting for new records (--from beginning prints the existing ones). Ctrl-C ends.", err=True)
    configure_aiokafka()
    consumer = _consumer(client, options)
    problem = None
    try:
        async with asyncio.timeout(client.timeout_s):
            await consumer.start()
        if options.group is None:
            _seek_to(consumer, found.starts)
        await _print(consumer, options, found.ends, line, IdleCheck(client, options), waits=waits)
    except TimeoutError:
        raise Failure(f"gave up after {client.timeout_s:g} s: the cluster did not answer") from None
    except KafkaError as error:
        raise Failure(f"reading {options.topic} failed: {error}") from None
    finally:
        problem = await stop_client(consumer)
    if problem is not None and options.group is not None:
        raise Failure(f"the last offsets of group '{options.group}' may not be committed: {problem}")


class IdleCheck:
    """Checks, while no records arrive, whether the command should stop."""

    def __init__(self, client: Client, options: ConsumeOptions) -> None:
        self._client = client
        self._request = options
        self._clock = SystemClock()
        self._last_record_ms = self._clock.monotonic_ms()
        self._quiet_rounds = 0
        self._problem: str | None = None

    async def is_over(self, *, has_records: bool) -> bool:
        """Whether no record has arrived for the requested time.

        Raises Failure if the topic was deleted, and BrokenPipeError if there is no reader of what is printed any more.
        """
        now_ms = self._clock.monotonic_ms()
        silence_s = self._request.silence_s
        if has_records:
            self._last_record_ms, self._quiet_rounds = now_ms, 0
            return False
        check_reader()
        self._quiet_rounds += 1
        if silence_s is not None and now_ms - self._last_record_ms >= silence_s * 1000:
            await self._check()
            return True
        if self._quiet_rounds % CHECK_ROUNDS == 0:
            try:
                await self._check()
                self._problem = None
            except ClusterUnreachable as problem:
                if self._request.exit_at_end or silence_s is not None or self._request.count_max is not None:
                    raise
                self._notice(str(problem))
        return False

    async def _check(self) -> None:
        """Raises Failure if the topic was deleted, ClusterUnreachable if the cluster does not answer."""
        topic = self._request.topic
        try:
            await self._client.on_cluster(lambda cluster: cluster.retry(lambda: cluster.topics([topic])))
        except Refused:
            raise
        except ClientError as failure:
            raise ClusterUnreachable(str(failure)) from None

    def _notice(self, problem: str) -> None:
        """Print once that the command is still waiting."""
        if self._problem is None:
            echo(f"sordini: {problem}; still waiting", err=True)
        self._problem = problem


class ClusterUnreachable(Failure):
    """The cluster does not answer at the moment."""


async def _fetch_ranges(cluster: ClusterClient, options: ConsumeOptions) -> StartsAndEnds:
    partitions = await partitions_of(cluster, [(options.topic, options.partitions or None)])
    group = options.group
    if group is not None:  # aiokafka would wait for the coordinator forever, without an error.
        await cluster.retry(lambda: cluster.coordinator(group))
    ends = await offset_ranges(cluster, partitions, isolation_level=READ_COMMITTED if options.read_committed else 0)
    kind, number = options.start
    if kind == "time":
        times = await offsets_for_times(cluster, dict.fromkeys(partitions, max(0, number)))
        found = {partition: row.offset for partition, row in times.items()}
        starts = {p: end.latest if (at := found[p]) is None else at for p, end in ends.items()}
        is_future = number > SystemClock().now_ms() and not any(at is not None for at in found.values())
        return StartsAndEnds(ends, starts, [NO_LATER_RECORD.format(topic=options.topic)] if is_future else [])
    starts = {partition: start_in(end, kind, number) for partition, end in ends.items()}
    return StartsAndEnds(ends, starts, outside_notices(ends, number) if kind == "offset" else [])


def start_in(ends: OffsetRange, kind: str, number: int) -> int:
    """The start offset in one partition, clamped to its first and end offset."""
    wanted = {"beginning": ends.earliest, "end": ends.latest, "last": ends.latest - number, "offset": number}[kind]
    return min(max(wanted, ends.earliest), ends.latest)


def outside_notices(ends: Mapping[TopicPartition, OffsetRange], offset: int) -> list[str]:
    """A line for each partition without this offset. Raises Failure if it is beyond the end of all of them.

    An offset that equals the end is that of the next record, and no mistake. Beyond it, records with smaller offsets
    would be the first to be printed.
    """
    if ends and all(offset > end.latest for end in ends.values()):
        shown = ", ".join(f"{partition} ends at {end.latest}" for partition, end in ends.items())
        raise Failure(f"offset {offset} is beyond the end: {shown}. --from end waits for new records")
    beyond = [
        f"offset {offset} is beyond the end of {partition}, which is {end.latest}: only its new records are printed"
        for partition, end in ends.items()
        if offset > end.latest
    ]
    return beyond + [
        f"offset {offset} of {partition} is deleted: its first record is {end.earliest}"
        for partition, end in ends.items()
        if 0 < offset < end.earliest  # 0 is said for the beginning.
    ]


def _consumer(client: Client, options: ConsumeOptions) -> Any:
    from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]

    # Without a group, partitions are assigned later, each at its offset; with a group, the topic is subscribed to.
    topics = [] if options.group is None else [options.topic]
    return AIOKafkaConsumer(
        *topics,
        bootstrap_servers=client.bootstrap.split(","),
        client_id=CLIENT_ID,
        group_id=options.group,
        auto_offset_reset="earliest" if options.start[0] == "beginning" else "latest",
        isolation_level="read_committed" if options.read_committed else "read_uncommitted",
        exclude_internal_topics=False,
        # aiokafka 0.14 asks the former leader for its first offset again and again, until the metadata is this old.
        metadata_max_age_ms=METADATA_AGE_MS,
        **aiokafka_options(),
    )


def _seek_to(consumer: Any, starts: Mapping[TopicPartition, int]) -> None:
    from aiokafka import TopicPartition as Assigned

    consumer.assign([Assigned(*partition) for partition in starts])
    for partition, offset in starts.items():
        consumer.seek(Assigned(*partition), offset)


async def _print(
    consumer: Any,
    options: ConsumeOptions,
    ends: Mapping[TopicPartition, OffsetRange],
    line: Callable[[Any], bytes],
    idle_check: IdleCheck,
    *,
    waits: bool,
) -> None:
    printed = unreadable = 0
    if sys.stdout is None:
        raise Failure("there is no standard output to print records on")
    out = sys.stdout.buffer
    task = asyncio.current_task()
    assert task is not None
    while not (options.exit_at_end and await _is_at_end(consumer, ends)):
        left = RECORDS_MAX if options.count_max is None else options.count_max - printed
        batches = await consumer.getmany(timeout_ms=WAIT_MS, max_records=min(left, RECORDS_MAX))
        if task.cancelling():
            # Ctrl-C arrived just as aiokafka's own wait ended, which swallowed the cancellation.
            raise asyncio.CancelledError
        records = [record for batch in batches.values() for record in batch]
        # All records returned to a group's consumer will be committed, so all are printed.
        if options.exit_at_end and options.group is None:
            records = [record for record in records if record.offset < _end(ends, record)]
        lines, failure = await _formatted(consumer, records, line, waits=waits)
        for record, text in zip(records, lines, strict=False):
            if isinstance(text, ValueRefused):
                unreadable += 1
                echo(f"sordini: {record.topic}-{record.partition} offset {record.offset}: {text}", err=True)
            else:
                out.write(text)
        out.flush()
        printed += len(lines)
        if failure is not None:
            raise failure
        if printed == options.count_max or await idle_check.is_over(has_records=bool(records)):
            break
    if unreadable:
        noun = "record was" if unreadable == 1 else "records were"
        raise Failure(f"{unreadable:,} {noun} not printed: the schema does not fit")


async def _formatted(
    consumer: Any, records: Sequence[Any], line: Callable[[Any], bytes], *, waits: bool
) -> tuple[list[bytes | ValueRefused], Failure | None]:
    """The lines of records, up to one that fails: of a registry that does not answer. Those without one are returned.

    What `waits` for a registry is in a thread, so that a member of a group sends its heartbeats meanwhile.
    """
    done = 0
    try:
        lines, failure = await asyncio.to_thread(_lines, records, line) if waits else _lines(records, line)
        done = len(lines)
        return lines, failure
    finally:
        _return(consumer, records[done:])


def _lines(records: Sequence[Any], line: Callable[[Any], bytes]) -> tuple[list[bytes | ValueRefused], Failure | None]:
    found: list[bytes | ValueRefused] = []
    for record in records:
        try:
            found.append(line(record))
        except ValueRefused as refused:
            found.append(refused)
        except Failure as failure:
            return found, failure
    return found, None


def _return(consumer: Any, records: Sequence[Any]) -> None:
    """Set the positions back before records that were not printed: a group commits its positions when it stops."""
    from aiokafka import TopicPartition as Assigned

    for record in reversed(records):
        partition = Assigned(record.topic, record.partition)
        if partition in consumer.assignment():
            consumer.seek(partition, record.offset)


def _end(ends: Mapping[TopicPartition, OffsetRange], record: Any) -> int:
    found = ends.get(TopicPartition(record.topic, record.partition))
    return record.offset + 1 if found is None else found.latest


async def _is_at_end(consumer: Any, ends: Mapping[TopicPartition, OffsetRange]) -> bool:
    """Whether everything that was there at the start has been read; a group's consumer waits to be given a share."""
    assigned = consumer.assignment()
    if not assigned:
        return False
    try:
        # The position is unknown until the group's coordinator has answered, and aiokafka waits for that forever.
        async with asyncio.timeout(WAIT_MS / 1000):
            for partition in assigned:
                end = ends.get(TopicPartition(*partition))
                if end is not None and await consumer.position(partition) < end.latest:
                    return False
    except TimeoutError:
        return False
    return True
