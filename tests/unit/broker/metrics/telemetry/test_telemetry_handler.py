"""GetTelemetrySubscriptions and PushTelemetry: what is answered, and in which order it is refused (KIP-714)."""

from __future__ import annotations

import gzip
from typing import Any

import lz4.frame
import pytest
import zstandard

from sordini.broker.metrics.telemetry import client_telemetry
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages.api_versions import ApiVersionsRequest
from sordini.protocol.primitives import ZERO_UUID
from sordini.protocol.served_apis import TELEMETRY_APIS
from tests.support.telemetry_pushes import (
    LAG_MAX,
    ON,
    an_id,
    ask,
    gauges,
    id_of,
    push,
    push_metrics,
    push_request,
    sums,
)
from tests.support.unit_broker import UnitBroker, a_broker, a_peer

ALL = {"metrics": "*", "interval.ms": "1000"}
E = ErrorCode


def subscribe(broker: UnitBroker, name: str = "all", **settings: str) -> None:
    changed = {key.replace("_", "."): value for key, value in settings.items()} or ALL
    broker.parts.client_metrics.changed(f"client-metrics/{name}", changed)


def instance_of(broker: UnitBroker, given: Any) -> Any:
    assert broker.parts.telemetry is not None
    return broker.parts.telemetry.instances.get(given.client_instance_id)


def values(broker: UnitBroker, given: Any) -> dict[str, float]:
    return {name.metric: figure.value for name, figure in instance_of(broker, given).figures.items()}


async def test_the_requests_are_advertised_and_served_only_where_telemetry_is_on() -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    async with a_broker() as broker:
        given = broker.ask(ApiKey.API_VERSIONS, 3, request)
        assert not TELEMETRY_APIS & {row.api_key for row in given.api_keys}
        for key, body in ((ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, None), (ApiKey.PUSH_TELEMETRY, None)):
            del body
            with pytest.raises(WireError):
                broker.parts.dispatcher.serve(broker.peer, memoryview(bytearray(key.to_bytes(2, "big") + bytes(30))))
    async with a_broker(ON) as broker:
        given = broker.ask(ApiKey.API_VERSIONS, 3, request)
        assert {row.api_key for row in given.api_keys} >= TELEMETRY_APIS


async def test_a_client_gets_an_id_and_what_it_is_to_push() -> None:
    async with a_broker(ON) as broker:
        subscribe(broker, metrics="b.,a", interval_ms="2000")
        given = ask(broker)
        assert (given.error_code, given.push_interval_ms, given.requested_metrics) == (0, 2000, ["a", "b."])
        assert given.accepted_compression_types == [4, 3, 1, 2]
        assert (given.telemetry_max_bytes, given.delta_temporality) == (1048576, True)
        assert given.client_instance_id != ask(broker).client_instance_id != ZERO_UUID


async def test_a_client_that_no_subscription_matches_pushes_nothing_and_asks_again_after_five_minutes() -> None:
    async with a_broker(ON) as broker:
        subscribe(broker, metrics="*", match="client_id=other")
        given = ask(broker)
        assert (given.error_code, given.push_interval_ms, given.requested_metrics) == (0, 300000, [])


async def test_an_instance_that_asks_before_its_interval_is_throttled() -> None:
    async with a_broker(ON) as broker:
        subscribe(broker)
        given = ask(broker)
        broker.clock.ms += 999
        assert ask(broker, given.client_instance_id).error_code == E.THROTTLING_QUOTA_EXCEEDED
        broker.clock.ms += 1
        assert ask(broker, given.client_instance_id).error_code == 0


async def test_a_push_behind_the_subscription_is_in_time_and_the_next_one_after_the_interval() -> None:
    async with a_broker(ON) as broker:
        subscribe(broker)
        given = ask(broker)
        broker.clock.ms += 1
        assert push(broker, given) == 0
        broker.clock.ms += 999
        assert push(broker, given) == E.THROTTLING_QUOTA_EXCEEDED
        broker.clock.ms += 1
        assert push(broker, given) == 0


async def test_an_interval_begins_again_over_another_connection() -> None:
    async with a_broker(ON) as broker:
        subscribe(broker)
        given = ask(broker)
        assert ask(broker, given.client_instance_id).error_code == E.THROTTLING_QUOTA_EXCEEDED
        broker.peer = a_peer()
        broker.peer.connection_id = "connection-2"
        assert ask(broker, given.client_instance_id).error_code == 0


async def test_a_push_of_an_instance_that_this_broker_does_not_know_is_taken_with_the_id_of_its_subscription() -> None:
    async with a_broker(ON) as one, a_broker(ON) as other:
        subscribe(one)
        subscribe(other)
        given = ask(one)
        assert await push_metrics(other, given, gauges({LAG_MAX: 7.0})) == 0
        assert values(other, given) == {LAG_MAX: 7.0}


async def test_the_id_of_a_subscription_changes_with_the_subscriptions_and_a_push_for_the_former_is_refused() -> None:
    async with a_broker(ON) as broker:
        subscribe(broker)
        given = ask(broker)
        subscribe(broker, metrics="a", interval_ms="1000")
        assert push(broker, given) == E.UNKNOWN_SUBSCRIPTION_ID
        again = ask(broker, given.client_instance_id)
        assert (again.error_code, again.requested_metrics) == (0, ["a"])
        assert again.subscription_id != given.subscription_id
        broker.clock.ms += 1000
        assert push(broker, again) == 0


async def test_the_id_of_a_subscription_has_the_bits_of_apache_kafka() -> None:
    async with a_broker(ON) as broker:
        given = ask(broker, id_of("AAAAAAAAAAEAAAAAAAAAAg"))
        assert given.subscription_id == -725132323
        instance_id = bytes((7, 1, 200, 3, 255, 5, 6, 90, 8, 9, 10, 110, 12, 13, 14, 15))
        given = ask(broker, instance_id)
        words = [int.from_bytes(instance_id[at : at + 4], "big") for at in range(0, 16, 4)]
        assert given.subscription_id & 0xFFFFFFFF == 3569834974 ^ words[0] ^ words[1] ^ words[2] ^ words[3]


@pytest.mark.parametrize("codec", [5, 127, -1])
async def test_an_unknown_compression_is_refused_and_the_client_may_ask_at_once(codec: int) -> None:
    async with a_broker(ON) as broker:
        subscribe(broker)
        given = ask(broker)
        broker.clock.ms += 1
        assert push(broker, given, compression_type=codec) == E.UNSUPPORTED_COMPRESSION_TYPE
        assert ask(broker, given.client_instance_id).error_code == 0
        assert ask(broker, given.client_instance_id).error_code == E.THROTTLING_QUOTA_EXCEEDED


async def test_a_push_of_more_than_telemetry_max_bytes_is_refused() -> None:
    async with a_broker({**ON, "telemetry.max.bytes": "100"}) as broker:
        subscribe(broker)
        given = ask(broker)
        assert given.telemetry_max_bytes == 100
        broker.clock.ms += 1
        assert push(broker, given, metrics=bytes(101)) == E.TELEMETRY_TOO_LARGE


async def test_the_last_push_is_always_in_time_and_one_behind_it_is_refused() -> None:
    async with a_broker(ON) as broker:
        subscribe(broker)
        given = ask(broker)
        broker.clock.ms += 1
        assert push(broker, given) == 0
        assert await push_metrics(broker, given, gauges({LAG_MAX: 1.0}), terminating=True) == 0
        assert push(broker, given) == E.INVALID_REQUEST
        assert push(broker, given) == E.THROTTLING_QUOTA_EXCEEDED  # As in Apache Kafka.


@pytest.mark.parametrize("instance_id", [ZERO_UUID, an_id(1)])
async def test_a_push_without_an_id_is_refused(instance_id: bytes) -> None:
    async with a_broker(ON) as broker:
        given = ask(broker)
        assert push(broker, given, client_instance_id=instance_id) == E.INVALID_REQUEST


@pytest.mark.parametrize(
    ("codec", "compressed"),
    [
        (0, lambda data: data),
        (1, gzip.compress),
        (3, lz4.frame.compress),
        (4, zstandard.compress),
    ],
)
async def test_pushed_values_are_kept_in_every_compression(codec: int, compressed: Any) -> None:
    async with a_broker(ON) as broker:
        subscribe(broker)
        given = ask(broker)
        assert await push_metrics(broker, given, compressed(gauges({LAG_MAX: 7.5})), compression_type=codec) == 0
        assert values(broker, given) == {LAG_MAX: 7.5}
        instance = instance_of(broker, given)
        assert (instance.pushes, instance.last_push_wall_ms) == (1, broker.clock.now_ms())


async def test_increments_of_a_counter_are_summed_up_and_a_gauge_that_is_not_pushed_again_is_gone() -> None:
    async with a_broker(ON) as broker:
        subscribe(broker)
        given = ask(broker)
        await push_metrics(broker, given, sums({"total": 3}) + gauges({"gauge": 1.0}))
        broker.clock.ms += 1000
        await push_metrics(broker, given, sums({"total": 4}))
        assert values(broker, given) == {"total": 7}


@pytest.mark.parametrize(
    ("codec", "metrics"),
    [
        (0, b"\xff\xff\xff"),
        (1, b"no gzip"),
        (4, b"no zstd"),
        (2, b"\x82SNAPPY"),
        (4, zstandard.compress(bytes(1048577))),
        (1, gzip.compress(bytes(1048577))),
    ],
)
async def test_what_cannot_be_read_or_expands_too_far_is_refused_as_an_invalid_record(
    codec: int, metrics: bytes
) -> None:
    async with a_broker(ON) as broker:
        subscribe(broker)
        given = ask(broker)
        assert await push_metrics(broker, given, metrics, compression_type=codec) == E.INVALID_RECORD
        assert (values(broker, given), instance_of(broker, given).last_error) == ({}, E.INVALID_RECORD)


async def test_pushes_beyond_what_may_wait_are_put_off() -> None:
    async with a_broker({**ON, "telemetry.max.bytes": str(2**30)}) as broker:
        subscribe(broker)
        first, second = ask(broker), ask(broker)
        broker.clock.ms += 1
        large = bytes(client_telemetry.WAITING_BYTES + 1)
        pending = broker.serve(ApiKey.PUSH_TELEMETRY, 0, push_request(first, large))
        assert push(broker, second, metrics=b"\n\0") == E.THROTTLING_QUOTA_EXCEEDED
        await broker.settled()
        assert pending is not None
        broker.clock.ms += 1000
        assert await push_metrics(broker, second, b"\n\0") == 0
