"""Spark against a broker with TLS, SCRAM and access control: both sources and sinks, with the least rights they need.

Each user here has the entries of the table in docs/spark-source.md, or all but one of them.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from uuid import uuid4

import aiokafka.client
import pyarrow as pa
import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from sordini.client.errors import Unauthorized
from sordini.pipeline.source.client import Client, ClientSettings
from sordini.pipeline.source.record_writer import write_records
from sordini.pipeline.source.sink_options import read_sink_options
from tests.outside.processes import SecureProcess
from tests.pipeline.batches import Batches, drain, end, running
from tests.pipeline.engine import Engine
from tests.pipeline.secured import MECHANISM, Entry, Secured, User
from tests.pipeline.sent import Row, rows, without_headers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCES = ("sordini", "kafka")
"""Ours, and Spark's own, which runs in the JVM."""
COUNT = 40
TAKEN = 20
"""Of each micro-batch."""
AT_ONCE = {"fetchOffset.retryIntervalMs": "1"}
"""Spark's own source requests offsets three times, whatever the error is."""
OLD_WAY = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
QUIET = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
# Many logins fail here: with the default each answer would wait twice as long as the one before.
QUIET["connection.failed.authentication.delay.ms"] = 0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with SecureProcess(tmp_path_factory.mktemp("secured"), QUIET) as process:
        yield Secured(process)


@pytest.fixture(scope="module")
def filled(secured: Secured) -> tuple[str, list[Row]]:
    """A topic that no test writes to, and what it holds."""
    topic = secured.make_topic()
    return topic, secured.fill(topic, COUNT)


@pytest.fixture(autouse=True)
def client_log(caplog: pytest.LogCaptureFixture) -> None:
    """What aiokafka did is in a failure's report, though a command that ran in this process may have silenced it."""
    caplog.set_level(logging.DEBUG, "aiokafka")


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class Queries:
    """Queries of one test, by one source or sink."""

    def __init__(self, spark: SparkSession, source: str, home: Path) -> None:
        self._spark = spark
        self._source = source
        self._home = home
        self.read = Batches(home / "read")

    def batch(self, user: Mapping[str, str], **options: str) -> DataFrame:
        return self._spark.read.format(self._source).options(**user, **AT_ONCE, **options).load()

    def stream(self, user: Mapping[str, str], **options: str) -> DataFrame:
        cut = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(TAKEN)}
        return self._spark.readStream.format(self._source).options(**user, **AT_ONCE, **cut, **options).load()

    def write_batch(self, user: Mapping[str, str], topic: str, frame: DataFrame | None = None) -> None:
        """Write the frame, or a frame of one row."""
        written = self._spark.range(1).selectExpr("'' as key", "'' as value") if frame is None else frame
        writer = written.select("key", "value").write.format(self._source)
        writer.options(**user, topic=topic).mode("append").save()

    def write_stream(self, user: Mapping[str, str], topic: str, frame: DataFrame) -> list[int]:
        """Copy what is there now, and keep the position; how many rows each micro-batch had."""
        writer = frame.select("key", "value").writeStream.format(self._source).options(**user, topic=topic)
        query = drain(writer.option("checkpointLocation", str(self._home / "written")))
        counts = [json.loads(progress.json)["numInputRows"] for progress in query.recentProgress]
        return [count for count in counts if count]


@pytest.fixture
def queries(spark: SparkSession, source: str, tmp_path: Path) -> Queries:
    return Queries(spark, source, tmp_path)


def reading(topic: str) -> Entry:
    return Entry(AclOperation.READ, topic)


def writing(topic: str) -> Entry:
    return Entry(AclOperation.WRITE, topic)


def describing(topic: str) -> Entry:
    return Entry(AclOperation.DESCRIBE, topic)


def in_order(sent: list[Row]) -> list[Row]:
    return sorted(sent, key=lambda row: row[:2])


def texts(sent: list[Row]) -> list[str]:
    return sorted(row.value or "" for row in sent)


OWN_ERRORS = ("sordini.pipeline.errors.", "sordini.client.errors.")


def reported(error: BaseException, source: str, *words: str) -> None:
    """Check that an error has these words; of our source they are in the line that it raised."""
    text = str(error)
    if source == "sordini":
        text = "\n".join(line for line in text.splitlines() if line.strip().startswith(OWN_ERRORS))
    assert all(word in text for word in words), str(error)


def test_a_user_with_read_on_a_topic_and_one_with_write_on_another_copy_it_in_a_batch_and_as_a_stream(
    secured: Secured, queries: Queries, filled: tuple[str, list[Row]]
) -> None:
    (topic, sent), target = filled, secured.make_topic()
    reader, writer = secured.make_user(reading(topic)).options, secured.make_user(writing(target)).options
    frame = queries.batch(reader, subscribe=topic)
    assert rows(frame) == sent
    queries.write_batch(writer, target, frame)
    assert queries.write_stream(writer, target, queries.stream(reader, subscribe=topic)) == [TAKEN, TAKEN]
    assert secured.values(target) == sorted(2 * texts(sent))


@pytest.mark.long
def test_such_a_stream_resumes_at_its_checkpoint(secured: Secured, queries: Queries) -> None:
    topic, target = secured.make_topic(), secured.make_topic()
    reader, writer = secured.make_user(reading(topic)).options, secured.make_user(writing(target)).options
    sent = secured.fill(topic, COUNT)
    assert queries.write_stream(writer, target, queries.stream(reader, subscribe=topic)) == [TAKEN, TAKEN]
    sent += secured.fill(topic, TAKEN, first=COUNT)
    assert queries.write_stream(writer, target, queries.stream(reader, subscribe=topic)) == [TAKEN]
    assert secured.values(target) == texts(sent)


@pytest.mark.slow
def test_a_wrong_password_ends_a_batch_and_a_stream_with_the_users_name(
    secured: Secured, queries: Queries, source: str, filled: tuple[str, list[Row]]
) -> None:
    user = secured.make_user(reading(filled[0]))
    wrong, said = user.with_wrong_password, ("invalid credentials", MECHANISM)
    names = (f"refuses '{user.name}'",) if source == "sordini" else ()
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own source raises Java's.
        queries.batch(wrong, subscribe=filled[0]).count()
    reported(caught.value, source, *said, *names)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        queries.read.drain(queries.stream(wrong, subscribe=filled[0]))
    reported(caught.value, source, *said, *names)


@pytest.mark.long
def test_a_wrong_password_ends_what_a_batch_and_a_stream_write(
    secured: Secured, queries: Queries, source: str, filled: tuple[str, list[Row]]
) -> None:
    target = secured.make_topic()
    reader, user = secured.make_user(reading(filled[0])).options, secured.make_user(writing(target))
    wrong, said = user.with_wrong_password, ("invalid credentials", MECHANISM)
    names = (f"refuses '{user.name}'",) if source == "sordini" else ()
    with pytest.raises(Exception) as caught:  # noqa: PT011
        queries.write_batch(wrong, target)
    reported(caught.value, source, *said, *names)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        queries.write_stream(wrong, target, queries.stream(reader, subscribe=filled[0]))
    reported(caught.value, source, *said, *names)
    assert secured.values(target) == []


def test_without_read_a_batch_and_a_stream_end_with_the_users_and_the_topics_name(
    secured: Secured, queries: Queries, source: str, filled: tuple[str, list[Row]]
) -> None:
    topic = filled[0]
    user = secured.make_user(describing(topic))
    with pytest.raises(Exception) as caught:  # noqa: PT011
        queries.batch(user.options, subscribe=topic).count()
    reported(caught.value, source, *denied(source, user, topic))
    with pytest.raises(Exception) as caught:  # noqa: PT011
        queries.read.drain(queries.stream(user.options, subscribe=topic))
    reported(caught.value, source, *denied(source, user, topic))
    assert queries.read.rows == []


@pytest.mark.long
def test_without_write_a_batch_and_a_stream_end_with_the_users_and_the_topics_name(
    secured: Secured, queries: Queries, source: str, filled: tuple[str, list[Row]]
) -> None:
    target, another = secured.make_topic(), secured.make_topic()
    reader = secured.make_user(reading(filled[0])).options
    user = secured.make_user(describing(target), writing(another))
    with pytest.raises(Exception) as caught:  # noqa: PT011
        queries.write_batch(user.options, target)
    reported(caught.value, source, *denied(source, user, target))
    with pytest.raises(Exception) as caught:  # noqa: PT011
        queries.write_stream(user.options, target, queries.stream(reader, subscribe=filled[0]))
    reported(caught.value, source, *denied(source, user, target))
    assert secured.values(target) == []


@pytest.mark.long
def test_without_any_right_what_a_batch_reads_and_what_it_writes_end_as_well(
    secured: Secured, queries: Queries, source: str, filled: tuple[str, list[Row]]
) -> None:
    topic, user = filled[0], secured.make_user()
    # Spark's own source and sink do not always say which topic it is.
    words = denied(source, user, topic if source == "sordini" else "")
    with pytest.raises(Exception) as caught:  # noqa: PT011
        queries.batch(user.options, subscribe=topic).count()
    reported(caught.value, source, *words)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        queries.write_batch(user.options, topic)
    reported(caught.value, source, *words)


def denied(source: str, user: User, topic: str) -> tuple[str, ...]:
    """What an error says of a right that is missing; Spark's own source cannot know the user."""
    if source == "sordini":
        return (topic, f"user '{user.name}' is not authorized", "_AUTHORIZATION_FAILED")
    return ("AuthorizationException", topic)


@pytest.mark.long
def test_a_stream_ends_when_read_is_taken_from_its_user(secured: Secured, queries: Queries, source: str) -> None:
    topic = secured.make_topic()
    # It still finds the end of the log, so that it has something to read.
    user = secured.make_user(reading(topic), describing(topic))
    sent = secured.fill(topic, COUNT)
    with running(queries.read.writer(queries.stream(user.options, subscribe=topic))) as query:
        query.processAllAvailable()
        secured.revoke(user, reading(topic))
        secured.fill(topic, COUNT, first=COUNT)
        with pytest.raises(Exception) as caught:  # noqa: PT011
            end(query)
    reported(caught.value, source, *denied(source, user, topic))
    assert queries.read.everything == in_order(sent)


@pytest.mark.long
def test_a_pattern_finds_the_topics_that_may_be_described_and_no_others(secured: Secured, queries: Queries) -> None:
    family = f"family-{uuid4().hex[:8]}"
    may, may_not = secured.make_topic(f"{family}-a"), secured.make_topic(f"{family}-b")
    user = secured.make_user(reading(may)).options
    sent = secured.fill(may, COUNT)
    secured.fill(may_not, COUNT)
    assert rows(queries.batch(user, subscribePattern=f"{family}-.*")) == sent


@pytest.mark.long
@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_group_is_committed_to_with_read_on_it_and_without_it_the_stream_goes_on(
    secured: Secured, filled: tuple[str, list[Row]], *, is_allowed: bool
) -> None:
    topic, sent = filled
    group = f"group-{uuid4().hex[:8]}"
    entry = Entry(AclOperation.READ if is_allowed else AclOperation.DESCRIBE, group, ResourceType.GROUP)
    user = secured.make_user(reading(topic), entry).options
    engine = Engine()
    read = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true"}
    engine.drain({**user, **read, "commit_group": group})
    assert without_headers(engine.everything) == sent
    with Client(ClientSettings.from_options(user)) as client:
        assert client.committed(group) == ({(topic, 0): TAKEN, (topic, 1): TAKEN} if is_allowed else {})


@pytest.mark.long
def test_the_old_way_of_sparks_own_source_needs_its_groups_as_well(
    spark: SparkSession, secured: Secured, filled: tuple[str, list[Row]], tmp_path: Path
) -> None:
    topic, sent = filled
    groups = Entry(AclOperation.READ, "spark-kafka-", ResourceType.GROUP, ResourcePatternType.PREFIXED)
    without, allowed = secured.make_user(reading(topic)), secured.make_user(reading(topic), groups)
    queries = Queries(spark, "kafka", tmp_path)
    spark.conf.set(OLD_WAY, "true")
    try:
        with pytest.raises(Exception, match="Not authorized to access group: spark-kafka-source-"):
            queries.read.drain(queries.stream(without.options, subscribe=topic))
        with pytest.raises(Exception, match="Not authorized to access group: spark-kafka-relation-"):
            queries.batch(without.options, subscribe=topic).count()
        assert rows(queries.batch(allowed.options, subscribe=topic)) == sent
        queries.read.drain(queries.stream(allowed.options, subscribe=topic))
    finally:
        spark.conf.unset(OLD_WAY)
    assert queries.read.everything == sent


def write(options: Mapping[str, str], topic: str, **more: str) -> int:
    """One record, as a task of our sink writes it."""
    batch = pa.RecordBatch.from_pydict({"value": [b"figs"]})
    return write_records(iter([batch]), read_sink_options({**options, "topic": topic, **more}, {"value": "binary"}))


def test_our_sink_says_who_may_not_write_to_which_topic(secured: Secured) -> None:
    target, another = secured.make_topic(), secured.make_topic()
    for entries in ([], [describing(target)], [writing(another)], [describing(target), writing(another)]):
        user = secured.make_user(*entries)
        for idempotence in ("true", "false"):
            refused = f"^topic '{target}': user '{user.name}' is not authorized .*it needs WRITE on the topic"
            with pytest.raises(Unauthorized, match=refused):
                write(user.options, target, **{"kafka.enable.idempotence": idempotence})
    user = secured.make_user()
    batch = pa.RecordBatch.from_pydict({"topic": [target], "value": [b"figs"]})
    options = read_sink_options(user.options, {"topic": "string", "value": "binary"})
    with pytest.raises(Unauthorized, match=f"^a producer: user '{user.name}' is not authorized .CLUSTER"):
        write_records(iter([batch]), options)
    assert secured.values(target) == []


def test_a_topic_that_is_not_there_is_made_for_a_user_with_create_and_write_on_it(secured: Secured) -> None:
    target = f"made-{uuid4().hex[:8]}"
    without = secured.make_user(writing(target))
    with pytest.raises(Unauthorized, match=f"^topic '{target}': user '{without.name}' .*, and CREATE where there is"):
        write(without.options, target)
    assert write(secured.make_user(writing(target), Entry(AclOperation.CREATE, target)).options, target) == 1


def test_a_refusal_that_took_as_long_as_a_request_may_is_reported_as_one(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"made-{uuid4().hex[:8]}"
    user = secured.make_user(writing(target))
    each_minute = itertools.count(step=60)
    monkeypatch.setattr(aiokafka.client, "time", SimpleNamespace(monotonic=lambda: float(next(each_minute))))
    with pytest.raises(Unauthorized, match=f"^topic '{target}': user '{user.name}' "):
        write(user.options, target)


def test_our_sink_says_why_it_cannot_connect(secured: Secured) -> None:
    target = secured.make_topic()
    user = secured.make_user(writing(target))
    with pytest.raises(Unauthorized, match=f"refuses '{user.name}' .{MECHANISM}.: .*invalid credentials"):
        write(user.with_wrong_password, target)
    trusting = {name: value for name, value in user.options.items() if "truststore" not in name}
    with pytest.raises(Unauthorized, match="certificate that is not trusted here"):
        write(trusting, target)
    assert write(user.options, target) == 1
