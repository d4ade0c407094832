"""Which quota is a client's: entities, their nodes, and the order in which they count."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.requests.quotas.client_quotas import METERS_MAX, ClientQuotas
from sordini.broker.requests.quotas.entities import (
    CONSUMER_RATE,
    DEFAULT,
    PRODUCER_RATE,
    QuotaEntity,
    checked_value,
    entity_of,
    value_text,
)
from sordini.broker.requests.quotas.rates import RateWindows
from tests.support.fake_ports import ListLog

NAMES = st.text(min_size=1, max_size=20).filter(lambda name: name.isprintable())
ORDER = [
    QuotaEntity("alice", "app"),
    QuotaEntity("alice", DEFAULT),
    QuotaEntity("alice"),
    QuotaEntity(DEFAULT, "app"),
    QuotaEntity(DEFAULT, DEFAULT),
    QuotaEntity(DEFAULT),
    QuotaEntity(client="app"),
    QuotaEntity(client=DEFAULT),
]
"""The most specific one first (KIP-55)."""


def some_quotas() -> ClientQuotas:
    return ClientQuotas(RateWindows(), RateWindows(), ListLog())


@given(NAMES | st.just(DEFAULT) | st.none(), NAMES | st.just(DEFAULT) | st.none())
def test_an_entity_is_read_from_the_path_that_it_has(user: str | None, client: str | None) -> None:
    if user is None and client is None:
        return
    entity = QuotaEntity(user, client)
    assert entity_of(entity.path) == entity
    assert "//" not in f"/{entity.path}/"


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (QuotaEntity("alice"), "users/alice"),
        (QuotaEntity("CN=a b,O=x"), "users/CN%3Da%20b%2CO%3Dx"),
        (QuotaEntity(DEFAULT, "app"), "users/<default>/clients/app"),
        (QuotaEntity("<default>"), "users/%3Cdefault%3E"),
        (QuotaEntity(client=DEFAULT), "clients/<default>"),
        (QuotaEntity(address="192.0.2.1"), "ips/192.0.2.1"),
    ],
)
def test_nodes_are_named_as_apache_kafka_names_them(entity: QuotaEntity, path: str) -> None:
    assert entity.path == path
    assert entity_of(path) == entity


@pytest.mark.parametrize("path", ["topics/orders", "brokers/1", "users/a/b/c", "users/a/clients", "users"])
def test_other_entities_have_no_quotas(path: str) -> None:
    assert entity_of(path) is None


@pytest.mark.parametrize("there", range(1, 2 ** len(ORDER), 7))
def test_the_most_specific_quota_counts(there: int) -> None:
    quotas = some_quotas()
    present = [entity for number, entity in enumerate(ORDER) if there >> number & 1]
    for entity in present:
        quotas.changed(entity.path, {PRODUCER_RATE: str(1000 + ORDER.index(entity))})
    meters = quotas.meters("alice", b"app")
    assert meters is not None
    assert meters.produced is not None
    assert meters.produced.bound == 1000 + ORDER.index(present[0])


def test_each_quota_is_found_by_itself() -> None:
    quotas = some_quotas()
    quotas.changed("users/alice", {PRODUCER_RATE: "1"})
    quotas.changed("users/<default>", {CONSUMER_RATE: "2"})
    meters = quotas.meters("alice", b"app")
    assert meters is not None
    assert [None if one is None else one.bound for one in meters] == [1, 2, None]
    others = quotas.meters("bob", b"app")
    assert others is not None
    assert [None if one is None else one.bound for one in others] == [None, 2, None]


def test_a_users_quota_is_shared_by_its_client_ids_and_that_of_a_pair_is_not() -> None:
    quotas = some_quotas()
    quotas.changed("users/alice", {PRODUCER_RATE: "1"})
    rates = {}
    for user, client in itertools.product(("alice", "bob"), (b"a", b"b")):
        meters = quotas.meters(user, client)
        rates[user, client] = None if meters is None or meters.produced is None else meters.produced.rate
    assert rates["alice", b"a"] is rates["alice", b"b"]
    assert rates["bob", b"a"] is None
    quotas.changed("users/<default>/clients/<default>", {PRODUCER_RATE: "1"})
    one, other = quotas.meters("bob", b"a"), quotas.meters("bob", b"b")
    assert one is not None
    assert other is not None
    assert one.produced is not None
    assert other.produced is not None
    assert one.produced.rate is not other.produced.rate


def test_a_quota_that_changes_keeps_what_was_measured() -> None:
    quotas = some_quotas()
    quotas.changed("clients/app", {PRODUCER_RATE: "1000"})
    before = quotas.meters("alice", b"app")
    assert before is not None
    assert before.produced is not None
    quotas.changed("clients/app", {PRODUCER_RATE: "500"})
    after = quotas.meters("alice", b"app")
    assert after is not None
    assert after.produced is not None
    assert after.produced.rate is before.produced.rate
    assert after.produced.bound == 500
    quotas.changed("clients/app", {})
    assert quotas.meters("alice", b"app") is None
    assert not quotas.limits_clients


def test_credentials_beside_quotas_are_no_quotas_and_unreadable_ones_are_logged() -> None:
    log = ListLog()
    quotas = ClientQuotas(RateWindows(), RateWindows(), log)
    quotas.changed("users/alice", {"SCRAM-SHA-256": "salt=x", PRODUCER_RATE: "many", CONSUMER_RATE: "5"})
    assert quotas.all() == {QuotaEntity("alice"): {CONSUMER_RATE: 5.0}}
    assert "salt" not in str(log.lines)
    assert PRODUCER_RATE in str(log.lines)


def test_meters_are_bounded_however_many_client_ids_there_are() -> None:
    quotas = some_quotas()
    quotas.changed("clients/<default>", {PRODUCER_RATE: "1000"})
    for number in range(METERS_MAX + 10):
        quotas.meters("alice", b"%d" % number)
    assert len(quotas._clients) == len(quotas._rates) == METERS_MAX


def test_an_address_has_its_own_quota_before_that_of_all() -> None:
    quotas = some_quotas()
    assert quotas.connection_rate("192.0.2.1") is None
    quotas.changed("ips/<default>", {"connection_creation_rate": "5"})
    quotas.changed("ips/192.0.2.1", {"connection_creation_rate": "50"})
    assert quotas.connection_rate("192.0.2.1") == 50
    assert quotas.connection_rate("192.0.2.2") == 5
    assert not quotas.limits_clients, "requests need not be measured"


@pytest.mark.parametrize(
    ("key", "value"), [(PRODUCER_RATE, 1.5), (PRODUCER_RATE, -1.0), ("request_percentage", float("inf"))]
)
def test_a_value_that_cannot_be_is_refused(key: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{key}=.* is not valid: allowed is"):
        checked_value(key, value)


def test_values_are_written_as_their_kind() -> None:
    assert value_text(PRODUCER_RATE, checked_value(PRODUCER_RATE, 1e6)) == "1000000"
    assert value_text("request_percentage", 12.5) == "12.5"
