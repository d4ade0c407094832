"""The registry of the kit: with each way to run brokers, beside faults and logins, and isolated."""

from __future__ import annotations

import json
import threading
import urllib.request

import pytest

from sordini.testing import Kafka, make_kafka

INT = b'{"schema":"\\"int\\""}'


def registered(kafka: Kafka, subject: str, body: bytes = INT) -> int:
    """The id that a schema gets."""
    headers = {"content-type": "application/vnd.schemaregistry.v1+json"}
    request = urllib.request.Request(f"{kafka.registry.url}/subjects/{subject}/versions", body, headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        number: int = json.loads(response.read())["id"]
        return number


def subjects(kafka: Kafka) -> list[str]:
    with urllib.request.urlopen(f"{kafka.registry.url}/subjects", timeout=30) as response:
        found: list[str] = json.loads(response.read())
        return found


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_cluster_has_a_registry_of_its_own(isolation: str) -> None:
    with (
        make_kafka(registry=True, isolation=isolation) as first,
        make_kafka(registry=True, isolation=isolation) as second,
    ):
        assert registered(first, "a") == 1
        assert subjects(first) == ["a"]
        assert subjects(second) == []
        assert [json.loads(record.key or b"")["keytype"] for record in first.records("_schemas")][-1] == "SCHEMA"


def test_its_requests_are_neither_seen_nor_met_by_rules() -> None:
    with make_kafka(registry=True) as kafka:
        kafka.forget_requests()
        with kafka.on("Produce").fail("NOT_LEADER_OR_FOLLOWER"):
            assert registered(kafka, "a") == 1
            kafka.undo_faults()
        assert kafka.requests() == []


def test_it_reaches_secured_brokers() -> None:
    with make_kafka(registry=True, tls=True, sasl={"alice": "secret"}) as kafka:
        assert registered(kafka, "a") == 1


def test_it_outlives_the_broker_that_it_writes_to() -> None:
    with make_kafka(brokers=3, registry=True) as kafka:
        assert registered(kafka, "a") == 1
        kafka.brokers[kafka.leader("_schemas") - 1].kill()
        assert registered(kafka, "b") == 1


def test_without_one_its_absence_is_said() -> None:
    with make_kafka() as kafka, pytest.raises(ValueError, match="make_kafka\\(registry=True\\)"):
        _ = kafka.registry


def test_a_cluster_that_is_closed_twice_has_no_thread_left() -> None:

    kafka = make_kafka(registry=True).start()
    kafka.close()
    kafka.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "sordini-registry"]


def test_the_argument_is_true_or_false() -> None:
    with pytest.raises(ValueError, match="True or False"):
        make_kafka(registry="yes")  # type: ignore[arg-type]
