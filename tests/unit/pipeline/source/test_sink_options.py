from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.source.sink_options import read_sink_options

BASE = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}
HEADERS = "array<struct<key:string,value:binary>>"


def test_records_are_acknowledged_by_all_and_appended_once_unless_configured_otherwise() -> None:
    options = read_sink_options(BASE, {"value": "string"})
    assert (options.acks, options.is_idempotent, options.compression) == ("all", True, "none")
    assert pickle.loads(pickle.dumps(options)) == options


def test_fewer_acknowledgements_are_not_idempotent() -> None:
    options = read_sink_options({**BASE, "kafka.acks": "1"}, {"value": "string"})
    assert (options.acks, options.is_idempotent) == (1, False)
    assert read_sink_options({**BASE, "KAFKA.Acks": "-1"}, {"value": "string"}).acks == "all"


def test_what_was_read_can_be_written_as_it_is() -> None:
    columns = {"key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint"}
    columns |= {"timestamp": "timestamp", "timestampType": "int", "headers": HEADERS}
    options = read_sink_options({"kafka.bootstrap.servers": "localhost:9092", "includeHeaders": "true"}, columns)
    assert options.topic is None


def test_what_spark_itself_wants_to_know_of_a_query_is_no_business_of_ours() -> None:
    given = {**BASE, "checkpointLocation": "somewhere"}
    assert read_sink_options(given, {"value": "string"}) == read_sink_options(BASE, {"value": "string"})


def test_options_of_how_javas_producer_goes_about_it_are_taken_without_effect() -> None:
    given = {**BASE, "kafka.linger.ms": "5", "kafka.retries": "3", "kafka.max.in.flight.requests.per.connection": "1"}
    assert read_sink_options(given, {"value": "string"}) == read_sink_options(BASE, {"value": "string"})


def test_a_stream_in_transactions_stages_below_its_checkpoint_unless_another_place_is_given() -> None:
    given = {**BASE, "kafka.transactional.id": "x", "checkpointLocation": "here/"}
    # From the root, as other processes have other working directories.
    assert read_sink_options(given, {"value": "string"}).transaction == ("x", 60_000, f"{Path.cwd()}/here/sordini-sink")
    elsewhere = {**given, "stagingLocation": "s3://there", "kafka.transaction.timeout.ms": "5000"}
    assert read_sink_options(elsewhere, {"value": "string"}).transaction == ("x", 5000, "s3://there")


@pytest.mark.parametrize(
    ("given", "columns", "complaint"),
    [
        ({}, {"key": "string"}, "no column named value"),
        ({}, {"value": "int"}, "value is int, it has to be string or binary"),
        ({}, {"value": "string", "partition": "bigint"}, "partition is bigint, it has to be int"),
        ({}, {"value": "string", "headers": "map<string,binary>"}, "it has to be array<struct"),
        ({}, {"value": "string", "event_id": "string"}, "a record has no column 'event_id'"),
        ({"kafka.transactional.id": "x"}, {"value": "string"}, "kafka.transactional.id needs stagingLocation"),
        ({"kafka.transactional.id": " "}, {"value": "string"}, "kafka.transactional.id is empty"),
        ({"kafka.transactional.id": "x", "kafka.acks": "1"}, {"value": "string"}, "needs kafka.acks=all"),
        ({"stagingLocation": "x"}, {"value": "string"}, "there is no transaction without kafka.transactional.id"),
        ({"kafka.transaction.timeout.ms": "9"}, {"value": "string"}, "no transaction without kafka.transactional.id"),
        (
            {"kafka.transactional.id": "x", "stagingLocation": "s", "kafka.transaction.timeout.ms": "0"},
            {"value": "string"},
            "is '0', which is no number of milliseconds",
        ),
        ({"kafka.acks": "2"}, {"value": "string"}, "kafka.acks is '2': this sink supports 0, 1, all, -1"),
        ({"kafka.acks": "0", "kafka.enable.idempotence": "true"}, {"value": "string"}, "needs kafka.acks=all"),
        ({"kafka.compression.type": "lzo"}, {"value": "string"}, "'lzo': this sink supports none, gzip"),
        ({"kafka.batch.size": "0"}, {"value": "string"}, "is '0', which is no number of bytes"),
        ({"kafka.value.serializer": "x"}, {"value": "string"}, "written as they are"),
        ({"topics": "x"}, {"value": "string"}, "topics: there is no such option; did you mean topic?"),
        ({"kafka.bootstrap.server": "x"}, {"value": "string"}, "kafka.bootstrap.server"),
    ],
)
def test_what_cannot_be_written_is_refused(given: dict[str, str], columns: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadSetting) as caught:
        read_sink_options({**BASE, **given}, columns)
    assert complaint in str(caught.value)


def test_rows_need_a_topic_of_their_own_where_no_option_names_one() -> None:
    with pytest.raises(BadSetting, match="column named topic"):
        read_sink_options({"kafka.bootstrap.servers": "localhost:9092"}, {"value": "string"})
