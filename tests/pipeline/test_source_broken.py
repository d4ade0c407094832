"""A corrupt batch in the middle of a topic: it fails the readers of its offsets, and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import crc32c
import pytest

from sordini.protocol.records.compression import CODEC_NAMES
from tests.outside.processes import SordiniProcess
from tests.pipeline.batches import Batches, end
from tests.pipeline.sent import KEEP, fill, rows
from tests.pipeline.topics import Place
from tests.support.builders import a_batch
from tests.support.wire_client import Client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE, BROKEN, AFTER = 20, 3, 10
CHECKED_FROM, LENGTH_AT, CRC_AT = 21, 8, 17
"""Where a batch has the bytes that its CRC is taken of, its length, and the CRC."""
CODECS = [codec for codec in CODEC_NAMES if codec]


def cut(batch: bytes, missing: int) -> bytes:
    """The batch without its last bytes, which its length and its CRC do not tell."""
    shorter = bytearray(batch[:-missing])
    shorter[LENGTH_AT : LENGTH_AT + 4] = (len(shorter) - 12).to_bytes(4, "big")
    shorter[CRC_AT : CRC_AT + 4] = crc32c.crc32c(shorter[CHECKED_FROM:]).to_bytes(4, "big")
    return bytes(shorter)


SOME = [CODECS[0], *(pytest.param(codec, marks=pytest.mark.slow) for codec in CODECS[1:])]


@pytest.fixture(params=SOME, ids=[CODEC_NAMES[codec] for codec in CODECS])
def codec(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def topic(sordini_broker: SordiniProcess, codec: int) -> str:
    """Good records, a batch of three whose compressed bytes end too early, and good records."""
    name = Place(sordini_broker.bootstrap).make_topic(configs=KEEP)
    fill(sordini_broker.bootstrap, name, BEFORE, partitions=1)
    with Client("127.0.0.1", sordini_broker.port) as client:
        batch = cut(a_batch(BROKEN, value=bytes(range(200)), codec=codec), 40)
        assert [row.error_code for row in client.produce(name, [batch])] == [0]
    fill(sordini_broker.bootstrap, name, AFTER, partitions=1, first=BEFORE)
    return name


def test_a_batch_that_cannot_be_opened_stops_a_job_and_says_where_it_is(
    spark: SparkSession, sordini_broker: SordiniProcess, topic: str, codec: int
) -> None:
    from pyspark.errors import PySparkException

    reader = spark.read.format("sordini").option("kafka.bootstrap.servers", sordini_broker.bootstrap)
    where = f"topic '{topic}', partition 0, offset {BEFORE}, {CODEC_NAMES[codec]}: "
    with pytest.raises(PySparkException, match=where):
        rows(reader.option("subscribe", topic).load())
    behind = json.dumps({topic: {"0": BEFORE + BROKEN}})
    found = rows(reader.options(subscribe=topic, startingOffsets=behind).load())
    assert [row.offset for row in found] == list(range(BEFORE + BROKEN, BEFORE + BROKEN + AFTER))


@pytest.mark.long
def test_a_stream_keeps_what_came_before_such_a_batch_stops_there_and_does_not_pass_it_when_started_again(
    spark: SparkSession, sordini_broker: SordiniProcess, topic: str, codec: int, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    options = {"kafka.bootstrap.servers": sordini_broker.bootstrap, "subscribe": topic}
    reader = spark.readStream.format("sordini").options(**options, startingOffsets="earliest")
    frame = reader.option("maxOffsetsPerTrigger", str(BEFORE)).load()
    kept = Batches(tmp_path / "checkpoint")
    where = f"topic '{topic}', partition 0, offset {BEFORE}, {CODEC_NAMES[codec]}: "
    for _ in range(2):
        with pytest.raises(PySparkException, match=where):
            end(kept.writer(frame).trigger(availableNow=True).start())
    whole = spark.read.format("sordini").options(**options, endingOffsets=json.dumps({topic: {"0": BEFORE}})).load()
    assert kept.everything == rows(whole)
    assert len(kept.everything) == BEFORE
