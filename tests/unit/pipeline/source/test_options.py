from __future__ import annotations

import pickle
from typing import Any

import pytest

from sordini.pipeline.errors import BadSetting, PipelineError
from sordini.pipeline.source.batch_planning import Admission
from sordini.pipeline.source.options import Edge, SourceOptions, Subscription, Timestamps, read_columns, read_options

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "views"}


def batch(**given: str) -> SourceOptions:
    return read_options({**BASE, **given}, streaming=False)


def stream(**given: str) -> SourceOptions:
    return read_options({**BASE, **given}, streaming=True)


def test_a_batch_reads_all_there_is_unless_configured_otherwise() -> None:
    options = batch()
    assert (options.starting, options.ending) == (Edge.EARLIEST, Edge.LATEST)
    assert options.subscription == Subscription(topics=("views",))
    assert options.fail_on_data_loss
    assert not options.read_committed
    assert options.admission == Admission()


def test_a_stream_starts_at_the_end_unless_configured_otherwise() -> None:
    assert stream().starting is Edge.LATEST


def test_names_of_options_may_be_written_in_any_case() -> None:
    given = {"KAFKA.Bootstrap.Servers": "localhost:9092", "SUBSCRIBE": "views", "startingoffsets": "Latest"}
    assert read_options(given, streaming=True).starting is Edge.LATEST


def test_options_travel_to_the_workers() -> None:
    options = batch(startingOffsets='{"views": {"0": 3}}')
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("given", "subscription"),
    [
        ({"subscribe": "views, clicks,,views"}, Subscription(topics=("clicks", "views"))),
        ({"subscribePattern": "view.*"}, Subscription(pattern="view.*")),
        ({"assign": '{"b": [1, 0], "a": [2]}'}, Subscription(assignment=(("a", (2,)), ("b", (0, 1))))),
    ],
)
def test_a_subscription_is_a_list_a_pattern_or_an_assignment(given: dict[str, str], subscription: Subscription) -> None:
    options = {"kafka.bootstrap.servers": "localhost:9092", **given}
    assert read_options(options, streaming=False).subscription == subscription


def test_the_columns_are_those_of_the_jvm_source() -> None:
    assert read_columns({}) == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert read_columns({"includeHeaders": "true"})[-1] == "headers"


def test_columns_that_are_asked_for_come_in_the_usual_order() -> None:
    assert read_columns({"columns": "offset, value,HEADERS"}) == ("value", "offset", "headers")


def test_one_timestamp_for_all_goes_before_timestamps_for_each_and_those_before_offsets() -> None:
    of_each, offsets = '{"views": {"0": 7}}', '{"views": {"0": 1}}'
    given = {"startingOffsets": offsets, "startingOffsetsByTimestamp": of_each, "startingTimestamp": "9"}
    assert batch(**given).starting == Timestamps(9, {}, or_latest=False)
    del given["startingTimestamp"]
    assert batch(**given).starting == Timestamps(None, {"views": {0: 7}}, or_latest=False)
    del given["startingOffsetsByTimestamp"]
    assert batch(**given).starting == {"views": {0: 1}}


def test_where_no_record_is_so_young_a_start_is_an_error_and_an_end_is_the_end() -> None:
    assert batch(startingTimestamp="9").starting == Timestamps(9, {}, or_latest=False)
    lenient = batch(startingTimestamp="9", startingOffsetsByTimestampStrategy="latest")
    assert lenient.starting == Timestamps(9, {}, or_latest=True)
    assert batch(endingTimestamp="9").ending == Timestamps(9, {}, or_latest=True)


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("500ms", 500), ("30s", 30_000), ("2 min", 120_000), ("15m", 900_000), ("1h", 3_600_000)]
)
def test_a_delay_is_written_with_its_unit(text: str, milliseconds: int) -> None:
    assert stream(maxTriggerDelay=text).admission.delay_max_ms == milliseconds


def test_limits_of_a_batch_and_of_its_tasks_are_numbers() -> None:
    options = stream(maxOffsetsPerTrigger="100", minOffsetsPerTrigger="10", minPartitions="8")
    assert options.admission[:2] == (100, 10)
    assert options.partitions_min == 8
    assert batch(maxRecordsPerPartition="7").records_per_partition_max == 7


def test_options_of_how_the_jvm_source_goes_about_it_are_taken_without_effect() -> None:
    plain = stream()
    moved = stream(**{"groupIdPrefix": "x", "kafkaConsumer.pollTimeoutMs": "9", "fetchOffset.numRetries": "3"})
    assert moved == plain


WRONG: list[tuple[dict[str, str], bool, str]] = [
    ({"startingOffset": "earliest"}, True, "startingoffset: there is no such option; did you mean startingOffsets?"),
    ({"xyzzy": "1"}, True, "xyzzy: there is no such option"),
    ({"assign": '{"a": [0]}'}, True, "given: subscribe, assign"),
    ({"subscribe": " "}, True, "subscribe is empty"),
    ({"endingOffsets": "latest"}, True, "a stream has no end"),
    ({"maxOffsetsPerTrigger": "5"}, False, "this is an option of streams"),
    ({"commit_group": "g"}, False, "this is an option of streams"),
    ({"startingOffsets": "latest"}, False, "startingOffsets: 'latest' in a batch read would read nothing"),
    ({"endingOffsets": "earliest"}, False, "endingOffsets: 'earliest' in a batch read would read nothing"),
    ({"startingOffsets": '{"views": {"0": -1}}'}, False, "-1 is not valid for 'views', partition 0"),
    ({"endingOffsets": '{"views": {"0": -2}}'}, False, "-2 is not valid"),
    ({"startingOffsets": '{"views": {"0": -3}}'}, True, "-3 is not valid"),
    ({"startingOffsets": "newest"}, True, "startingOffsets: 'newest' is neither earliest, latest, nor offsets"),
    ({"startingTimestamp": "-5"}, True, "startingTimestamp: '-5' is no whole number"),
    ({"startingOffsetsByTimestamp": '{"views": {"0": -1}}'}, True, "not negative"),
    ({"startingOffsetsByTimestampStrategy": "earliest"}, True, "neither error nor latest"),
    ({"minPartitions": "0"}, True, "minPartitions: 0 would read nothing"),
    ({"minPartitions": "four"}, True, "minPartitions: 'four' is no whole number"),
    ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, True, "6 is more than maxOffsetsPerTrigger, 5"),
    ({"maxTriggerDelay": "soon"}, True, "'soon' is not a duration"),
    ({"failOnDataLoss": "no"}, True, "failOnDataLoss: 'no' is neither true nor false"),
    ({"columns": "value,size"}, True, "columns: size is not among key, value"),
    ({"columns": ","}, True, "columns: nothing is not among"),
    ({"kafka.isolation.level": "serializable"}, True, "neither read_committed nor read_uncommitted"),
    ({"kafka.auto.offset.reset": "latest"}, True, "startingOffsets and failOnDataLoss"),
    ({"kafka.enable.auto.commit": "true"}, True, "commit_group"),
]


@pytest.mark.parametrize(("given", "streaming", "complaint"), WRONG)
def test_an_option_that_is_wrong_or_would_be_ignored_is_refused(
    given: dict[str, str], streaming: bool, complaint: str
) -> None:
    with pytest.raises(BadSetting) as caught:
        read_options({**BASE, **given}, streaming=streaming)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("given", [{"subscribePattern": "("}, {"assign": '{"a": []}'}, {"assign": "a"}, {}])
def test_a_subscription_to_nothing_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(PipelineError, match=r"subscribe|assign"):
        read_options({"kafka.bootstrap.servers": "localhost:9092", **given}, streaming=True)
