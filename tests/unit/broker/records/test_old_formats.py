"""A broker whose topics store message formats 0 and 1: produced, fetched and listed."""

from __future__ import annotations

import pytest

from sordini.broker.administration.config_receiver import ConfigReceiver
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.records import legacy, legacy_writing
from sordini.protocol.records.batch import NO_TIMESTAMP, Record
from sordini.protocol.records.compression import GZIP
from sordini.replication.purgatory import DelayedOperation
from tests.support.builders import BASE_TIMESTAMP, a_batch, an_idempotent_batch, some_records
from tests.support.unit_broker import ME, UnitBroker, a_broker
from tests.unit.broker.records import test_fetch_handler, test_list_offsets_handler, test_produce_handler

VERSIONS = {0: "0.9.0", 1: "0.10.2"}


def entries(magic: int, **others: str) -> dict[str, str]:
    return {"inter.broker.protocol.version": "2.8", "log.message.format.version": VERSIONS[magic], **others}


def produced(broker: UnitBroker, data: bytes, version: int = 9) -> tuple[int, int]:
    row = test_produce_handler.rows_of(broker.ask(ApiKey.PRODUCE, version, test_produce_handler.request(data)))[0]
    return row.error_code, row.base_offset


def fetched(broker: UnitBroker, version: int, offset: int = 0) -> bytes:
    answer = broker.ask(ApiKey.FETCH, version, test_fetch_handler.request(test_fetch_handler.requested(offset=offset)))
    return bytes(answer.responses[0].partitions[0].records)


def read_all(data: bytes) -> list[Record]:
    return [record for entry in legacy.entries(data) for record in legacy.read_entry(data, entry, 1 << 20)]


@pytest.mark.parametrize("magic", VERSIONS)
async def test_batches_are_stored_and_fetched_in_the_topics_old_format(magic: int) -> None:
    async with a_broker(entries(magic)) as broker:
        await broker.lead("orders", epoch=4)
        assert produced(broker, a_batch(3)) == (0, 0)
        assert produced(broker, a_batch(2, codec=GZIP)) == (0, 3)
        assert produced(broker, legacy_writing.write_messages(some_records(2), 1 - magic), 2) == (0, 5)
        stored = broker.disk.contents("/logs/orders-0/00000000000000000000.log")
        assert {entry.magic for entry in legacy.entries(stored)} == {magic}
        for version in range(2 * magic, 18):
            assert fetched(broker, version) == stored
        assert [record.offset for record in read_all(fetched(broker, 12, offset=4))] == [3, 4, 5, 6]
        older = read_all(fetched(broker, 0))
        assert [(one.offset, one.timestamp) for one in older] == [(offset, NO_TIMESTAMP) for offset in range(7)]
        assert [one.value for one in older] == [one.value for one in read_all(stored)]


async def test_an_old_format_takes_no_idempotent_producer() -> None:
    async with a_broker(entries(1)) as broker:
        await broker.lead("orders")
        assert produced(broker, an_idempotent_batch()) == (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, -1)


async def test_a_delayed_fetch_counts_the_bytes_of_old_messages_as_they_are_stored() -> None:
    async with a_broker(entries(0, **{"compression.type": "gzip"})) as broker:
        await broker.lead("orders")
        woken: list[bool] = []
        data = a_batch(3, value=bytes(90))
        DelayedOperation(200, list(broker.parts.replicas), lambda: woken.append(True))
        assert produced(broker, data) == (0, 0)
        grown = len(broker.disk.contents("/logs/orders-0/00000000000000000000.log"))
        assert grown < 200 < len(data)
        assert not woken
        produced(broker, data)
        produced(broker, data)
        assert woken


async def test_format_0_has_no_times_to_look_up() -> None:
    async with a_broker(entries(0)) as broker:
        await broker.lead("orders")
        produced(broker, a_batch(3))
        for version in (1, 7, 10):
            for time in (0, BASE_TIMESTAMP):
                (row,) = test_list_offsets_handler.listed(broker, version, test_list_offsets_handler.requested(time))
                assert (row.error_code, row.offset) == (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, -1)
            (latest,) = test_list_offsets_handler.listed(broker, version, test_list_offsets_handler.requested(-1))
            (earliest,) = test_list_offsets_handler.listed(broker, version, test_list_offsets_handler.requested(-2))
            assert (latest.offset, earliest.offset) == (3, 0)
        (row,) = test_list_offsets_handler.listed(broker, 7, test_list_offsets_handler.requested(-3))
        assert row.error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        # Segments have their files' times in any format.
        (row,) = test_list_offsets_handler.listed(
            broker, 0, test_list_offsets_handler.requested(2**62, max_num_offsets=5)
        )
        assert row.old_style_offsets == [3, 0]


async def test_format_1_is_looked_up_by_its_times() -> None:
    async with a_broker(entries(1)) as broker:
        await broker.lead("orders")
        produced(broker, a_batch(3, codec=GZIP))
        produced(broker, a_batch(1, timestamp=BASE_TIMESTAMP + 9))
        found = [
            test_list_offsets_handler.listed(broker, 7, test_list_offsets_handler.requested(BASE_TIMESTAMP + after))[
                0
            ].offset
            for after in (-1, 2, 3, 10)
        ]
        assert found == [0, 2, 3, -1]
        assert test_list_offsets_handler.listed(broker, 7, test_list_offsets_handler.requested(-3))[0].offset == 3


async def test_a_format_that_the_protocol_version_overrules_is_logged_once_for_the_topic_and_batches_are_stored() -> (
    None
):
    async with a_broker() as broker:
        parts = broker.parts
        receiver = ConfigReceiver(ME, broker.dynamic, parts.topic_configs, parts.replicas, broker.log)
        await broker.lead("orders")
        receiver.changed("topics/orders", {"message.format.version": "0.9.0"})
        receiver.changed("topics/orders", {"message.format.version": "2.0"})
        [(said, fields)] = broker.log.at("warning")
        assert said == "setting ignored"
        assert fields["key"] == "message.format.version"
        receiver.changed("topics/orders", {"message.format.version": "rubbish"})
        assert len(broker.log.at("warning")) == 2
        produced(broker, legacy_writing.write_messages(some_records(2), 0), 2)
        assert broker.disk.contents("/logs/orders-0/00000000000000000000.log")[16] == 2
