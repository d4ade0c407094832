"""Quotas as administrators alter and describe them, and mutations of a client that has one."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.requests.quotas.mutation_quota import MutationQuotas
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredEntity,
    AlteredEntry,
    QuotaOp,
)
from sordini.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, FilterComponent
from tests.support.unit_broker import UnitBroker, a_broker, a_peer

EXACT, IS_DEFAULT, ANY = range(3)


def entry(parts: dict[str, str | None], **values: float | None) -> AlteredEntry:
    return AlteredEntry(
        entity=[AlteredEntity(entity_type=kind, entity_name=name) for kind, name in parts.items()],
        ops=[QuotaOp(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )


async def alter(broker: UnitBroker, *entries: AlteredEntry, validate_only: bool = False) -> list[int]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    answer = await broker.ask_later(ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
    return [row.error_code for row in answer.entries]


def described(broker: UnitBroker, *components: FilterComponent, strict: bool = False) -> Any:
    request = DescribeClientQuotasRequest(components=list(components), strict=strict)
    answer = broker.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request)
    if answer.error_code:
        return ErrorCode(answer.error_code)
    return [
        ({part.entity_type: part.entity_name for part in row.entity}, {one.key: one.value for one in row.values})
        for row in answer.entries
    ]


async def test_what_is_altered_is_in_apache_kafkas_nodes_and_described_and_in_force() -> None:
    async with a_broker() as broker:
        codes = await alter(
            broker,
            entry({"user": "a b", "client-id": None}, producer_byte_rate=1000.0),
            entry({"user": "a b"}, request_percentage=12.5),
            entry({"ip": "192.0.2.1"}, connection_creation_rate=7.0),
        )
        assert codes == [0, 0, 0]
        data, _ = await broker.session.get("/config/users/a%20b/clients/<default>")
        assert data == b'{"version":1,"config":{"producer_byte_rate":"1000"}}'
        data, _ = await broker.session.get("/config/users/a%20b")
        assert data == b'{"version":1,"config":{"request_percentage":"12.5"}}'
        assert described(broker) == [
            ({"ip": "192.0.2.1"}, {"connection_creation_rate": 7.0}),
            ({"user": "a b"}, {"request_percentage": 12.5}),
            ({"user": "a b", "client-id": None}, {"producer_byte_rate": 1000.0}),
        ]
        quotas = broker.parts.quotas
        meters = quotas.meters("a b", b"any")
        assert meters is not None
        assert [None if one is None else one.bound for one in meters] == [1000.0, None, 12.5]
        assert quotas.connection_rate("192.0.2.1") == 7
        await alter(broker, entry({"ip": "192.0.2.1"}, connection_creation_rate=None))
        assert quotas.connection_rate("192.0.2.1") is None


async def test_credentials_of_a_user_stay_when_its_quotas_change() -> None:
    async with a_broker() as broker:
        node = (
            b'{"version":1,"config":{"SCRAM-SHA-256":"salt=c2FsdA==,stored_key=AA==,server_key=AA==,iterations=4096"}}'
        )
        await broker.session.create("/config/users/alice", node)
        assert await alter(broker, entry({"user": "alice"}, producer_byte_rate=5.0)) == [0]
        data, _ = await broker.session.get("/config/users/alice")
        assert b"stored_key=AA==" in data
        assert b'"producer_byte_rate":"5"' in data


async def test_wrong_changes_are_refused_one_by_one_and_validation_changes_nothing() -> None:
    async with a_broker() as broker:
        wrong = [
            entry({}, producer_byte_rate=1.0),
            entry({"group": "g"}, producer_byte_rate=1.0),
            entry({"user": ""}, producer_byte_rate=1.0),
            entry({"user": "x" * 251}, producer_byte_rate=1.0),
            entry({"user": "alice", "ip": "192.0.2.1"}, connection_creation_rate=1.0),
            entry({"ip": "not an address"}, connection_creation_rate=1.0),
            entry({"user": "alice"}, connection_creation_rate=1.0),
            entry({"user": "alice"}, producer_byte_rate=0.5),
            entry({"user": "alice"}, producer_byte_rate=-1.0),
            entry({"user": "alice"}, request_percentage=float("nan")),
        ]
        right = entry({"user": "bob"}, producer_byte_rate=1.0)
        assert await alter(broker, *wrong, right, validate_only=True) == [ErrorCode.INVALID_REQUEST] * len(wrong) + [0]
        assert described(broker) == []
        assert await alter(broker, *wrong, right) == [ErrorCode.INVALID_REQUEST] * len(wrong) + [0]
        assert described(broker) == [({"user": "bob"}, {"producer_byte_rate": 1.0})]


async def test_a_request_for_too_many_entities_is_refused_as_a_whole() -> None:
    async with a_broker() as broker:
        many = [entry({"user": f"u{number}"}, producer_byte_rate=1.0) for number in range(1_001)]
        answer = broker.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest(entries=many))
        assert {row.error_code for row in answer.entries} == {ErrorCode.POLICY_VIOLATION}


async def test_filters_select_by_name_default_and_presence() -> None:
    async with a_broker() as broker:
        await alter(
            broker,
            entry({"user": "alice"}, producer_byte_rate=1.0),
            entry({"user": None}, producer_byte_rate=2.0),
            entry({"user": "alice", "client-id": "app"}, producer_byte_rate=3.0),
            entry({"client-id": "app"}, producer_byte_rate=4.0),
        )

        def rates(*components: FilterComponent, strict: bool = False) -> list[float]:
            return sorted(quotas["producer_byte_rate"] for _, quotas in described(broker, *components, strict=strict))

        def part(kind: str, match_type: int, match: str | None = None) -> FilterComponent:
            return FilterComponent(entity_type=kind, match_type=match_type, match=match)

        assert rates() == [1, 2, 3, 4]
        assert rates(strict=True) == []
        assert rates(part("user", EXACT, "alice")) == [1, 3]
        assert rates(part("user", EXACT, "alice"), strict=True) == [1]
        assert rates(part("user", IS_DEFAULT)) == [2]
        assert rates(part("user", ANY)) == [1, 2, 3]
        assert rates(part("client-id", ANY), strict=True) == [4]
        assert rates(part("user", ANY), part("client-id", EXACT, "app")) == [3]
        assert described(broker, part("user", ANY), part("user", ANY)) == ErrorCode.INVALID_REQUEST
        assert described(broker, part("ip", ANY), part("user", ANY)) == ErrorCode.INVALID_REQUEST
        assert described(broker, part("user", 3)) == ErrorCode.INVALID_REQUEST
        assert described(broker, part("colour", ANY)) == ErrorCode.UNSUPPORTED_VERSION


async def test_mutations_above_the_quota_are_refused_where_clients_know_the_code_and_throttled_elsewhere() -> None:
    async with a_broker() as broker:
        await alter(broker, entry({"client-id": None}, controller_mutation_rate=1.0))
        quotas = MutationQuotas(broker.parts.quotas, broker.clock.monotonic_ms)
        muted: list[int] = []
        peer = a_peer()
        peer.mute = muted.append
        first = quotas.of(ApiKey.CREATE_TOPICS, 7, peer, "app")
        first.spend(31)
        assert first.throttle() == 0, "it was served"
        again = quotas.of(ApiKey.CREATE_TOPICS, 7, peer, "app")
        with pytest.raises(BrokerError) as refused:
            again.spend(1)
        assert refused.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert again.throttle() == 20_000
        old = quotas.of(ApiKey.CREATE_TOPICS, 5, peer, "app")
        old.spend(1)
        assert old.throttle() == 21_000
        assert muted == [20_000, 21_000]
        other = quotas.of(ApiKey.CREATE_TOPICS, 7, peer, "another")
        other.spend(1)
        assert other.throttle() == 0
