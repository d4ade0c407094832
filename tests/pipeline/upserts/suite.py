"""The suite: rounds of changes are sent while a stream upserts them and is killed; in the end all readers compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from confluent_kafka import Producer

from sordini.pipeline.jobs.batch_writer import open_sink_table
from sordini.pipeline.jobs.compact import compact
from sordini.pipeline.jobs.job import Job
from sordini.pipeline.jobs.job_file import read_job
from tests.outside.spark import driver_options
from tests.pipeline.upserts import readers
from tests.pipeline.upserts.debezium import Change, Record, changes_of, json_record
from tests.pipeline.upserts.killed_stream import VICTIMS, Stream
from tests.pipeline.upserts.postgres import Postgres
from tests.pipeline.upserts.workload import COLUMNS, FIELDS, TABLE, round_of

TOPIC: Final = "people"
PARTITIONS: Final = 4
TAKEN_MAX: Final = 200_000
REPEATED_SHARE: Final = 0.02
COMPACT_ROUNDS: Final = 5
STARTING_SHARE: Final = 0.2
FIRST_BATCH_SECONDS_MAX: Final = 1200.0
END_SECONDS_MAX: Final = 3600.0
LOAD_TRIES: Final = 5
STOPPED: Final = "none: it had stopped"
"""Counted beside the processes that were killed."""
JOB: Final = f"""\
name: people
source: {{bootstrap: %s, topics: [{TOPIC}], records_max: %d}}
decode:
  %s
  changes: debezium
  columns: {{lsn: source.lsn long}}
sink: {{kind: %s, location: tables/people, mode: upsert, keys: id, sequence: lsn}}
spark:
  master: local[2]
  config: {{spark.driver.memory: 1g, spark.driver.extraJavaOptions: "{driver_options()}"}}
"""


class Values(NamedTuple):
    """How values are written, and how the job reads them: lines of its `decode`."""

    decode: str = f"mode: json\n  schema: {{fields: {FIELDS}}}"
    record_of: Callable[[Change], Record] = json_record


class Scale(NamedTuple):
    """How much is done; a kill has a round of changes."""

    changes: int
    keys: int
    kills: int
    kind: str = "delta"
    """Of table."""
    records_max: int = 100_000
    seconds_max: float = 5.0
    """A stream is killed within so many seconds after its first batch, or after its start."""


class Outcome(NamedTuple):
    """What was done, and how the readers' tables differ from PostgreSQL's."""

    records: int
    kills: dict[str, int]
    rows: int
    dead: int
    differences: dict[str, Sequence[str]]


class Suite:
    """One run of the suite in a folder."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        postgres: Postgres,
        scale: Scale,
        random: Random,
        say: Callable[[str], None],
        values: Values,
    ) -> None:
        self._values = values
        self._folder = folder
        self._postgres = postgres
        self._scale = scale
        self._random = random
        self._say = say
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True})
        self._file = folder / "job.yaml"
        self._file.write_text(JOB % (bootstrap, scale.records_max, values.decode, scale.kind))
        self.job: Job = read_job(self._file, {})
        assert self.job.sink is not None
        # One for all times it is read: opening it anew reads its whole log, and the suite shares the stream's cores.
        self._table = open_sink_table(self.job.sink, self.job.name)
        self.records = 0

    def run(self) -> dict[str, int]:
        """All rounds, and then a load of what is left; how often which process was killed."""
        self._postgres.run(TABLE)
        self._postgres.create_slot()
        kills: dict[str, int] = {}
        for number in range(self._scale.kills):
            stream = Stream(self._folder / "stream.log", "stream", str(self._file))
            reached = self.reached
            self._send_round(number)
            if number % COMPACT_ROUNDS == COMPACT_ROUNDS - 1:
                list(compact(self.job, 32 << 20, clean_up=True))
            self._wait(stream, reached)
            victim = self._random.choice(VICTIMS)
            if stream.is_running:
                victim = stream.kill(victim, self._random)
            else:
                # Spark gives a Python process ten seconds to start, and stops where the machine is busier than that.
                stream.end()
                victim = STOPPED
            kills[victim] = kills.get(victim, 0) + 1
            self._say(
                f"kill {number + 1} of {self._scale.kills} ({victim}); {self.records:,} records, {self.reached:,} read"
            )
        self._load()
        return kills

    def _load(self) -> None:
        """What is left of the topic; on a busy machine Spark may not start at once."""
        for left in reversed(range(LOAD_TRIES)):
            try:
                Stream(self._folder / "stream.log", "load", str(self._file)).wait(END_SECONDS_MAX)
            except AssertionError:
                if not left:
                    raise
            else:
                return

    def compare(self, spark: object | None = None) -> Outcome:
        """What all readers see beside PostgreSQL's rows."""
        assert self.job.sink is not None
        path = self._folder / "people.csv"
        self._postgres.export(f"SELECT {', '.join(COLUMNS)} FROM people", path)
        expected = readers.of_postgres(path)
        location = self.job.sink.location
        found = {
            name: readers.differences(expected, read(location))
            for name, read in readers.READERS[self._scale.kind].items()
        }
        if spark is not None:
            found["Spark"] = readers.differences(expected, readers.by_spark(self._scale.kind, location, spark))
        dead_letters = self.job.dead_letters
        assert dead_letters is not None
        dead = open_sink_table(dead_letters, self.job.name)
        letters = readers.count(dead_letters.kind.value, dead_letters.location) if dead.schema() else 0
        return Outcome(self.records, {}, expected.num_rows, letters, found)

    @property
    def reached(self) -> int:
        """How many records the table has, by its own note."""
        last = self._table.last()
        return 0 if last is None else sum(last[1][TOPIC].values())

    def _wait(self, stream: Stream, reached: int) -> None:
        """For a moment at which to kill: sometimes while Spark starts, else within the batches after the first one."""
        seconds = self._random.uniform(0.0, self._scale.seconds_max)
        deadline = time.monotonic() + seconds
        if self._random.random() >= STARTING_SHARE:
            last = time.monotonic() + FIRST_BATCH_SECONDS_MAX
            while stream.is_running and self.reached == reached:
                assert time.monotonic() < last, "no batch was written"
                time.sleep(0.5)
            deadline = time.monotonic() + seconds
        while stream.is_running and time.monotonic() < deadline:
            time.sleep(0.05)

    def _send_round(self, number: int) -> None:
        left = self._scale.changes // self._scale.kills
        self._postgres.run(round_of(number, left, self._scale.keys))
        while lines := list(self._postgres.take_changes(TAKEN_MAX)):
            self._send(lines)
            if self._random.random() < REPEATED_SHARE * 10:
                # A connector that crashed sends its last changes again.
                self._send(lines[-round(len(lines) * REPEATED_SHARE) :])
        self._producer.flush(60)

    def _send(self, lines: Iterable[str]) -> None:
        for record in map(self._values.record_of, changes_of(lines)):
            while True:
                try:
                    self._producer.produce(TOPIC, record.value, record.key)
                    break
                except BufferError:
                    self._producer.poll(0.1)
            self.records += 1
            if self.records % 1000 == 0:
                self._producer.poll(0)
