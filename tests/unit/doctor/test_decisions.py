"""The decisions of the doctor, from what probes hand over."""

from __future__ import annotations

import base64
import datetime as dt
import json

import pytest

from sordini.client.addresses import Address
from sordini.doctor.broker_host.configuration import perhaps_meant
from sordini.doctor.broker_host.listeners import certificate_findings, is_named
from sordini.doctor.client_way.advertised import Bootstrap, is_of_containers, judged
from sordini.doctor.client_way.cluster_state import INTERNAL_TOPICS, partition_findings, replication_too_high
from sordini.doctor.client_way.endpoint import Reached
from sordini.doctor.client_way.logins import token_text
from sordini.doctor.client_way.peer import PeerAnswers, answer_shown, fault_of
from sordini.doctor.client_way.scratch_topic import CLOCK_MS_MAX, clock_difference
from sordini.doctor.client_way.tcp import Tried
from sordini.doctor.client_way.tls import Certificate
from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding, Report
from sordini.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NOW = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("said", "with_tls", "fault"),
    [
        (PeerAnswers(http=b"HTTP/1.1 400 Bad Request"), False, Fault.HTTP_SERVER),
        (PeerAnswers(http=b"HTTP/1.1 400 Bad Request", is_tls=True), False, Fault.HTTP_SERVER),
        (PeerAnswers(http=b"HTTP/1.1 400 Bad Request", is_tls=True), True, Fault.HTTP_SERVER),
        (PeerAnswers(zookeeper=b"Zookeeper version: 3.8.4"), False, Fault.ZOOKEEPER),
        (PeerAnswers(zookeeper=b"srvr is not executed because it is not in the whitelist."), True, Fault.ZOOKEEPER),
        (PeerAnswers(is_tls=True), False, Fault.TLS_SPOKEN_PLAIN),
        (PeerAnswers(is_kafka=True), True, Fault.PLAIN_SPOKEN_TLS),
        (PeerAnswers(banner=b"SSH-2.0-OpenSSH"), False, Fault.OTHER_PROTOCOL),
        (PeerAnswers(http=b"220 mail.example ESMTP"), False, Fault.OTHER_PROTOCOL),
        (PeerAnswers(is_silent=True), False, Fault.SILENT),
        (PeerAnswers(), False, Fault.CLOSED_UNANSWERED),
        (PeerAnswers(is_tls=True), True, Fault.CLOSED_UNANSWERED),
    ],
)
def test_what_listens_is_decided_from_what_it_said(said: PeerAnswers, with_tls: bool, fault: Fault) -> None:
    assert fault_of(said, with_tls=with_tls) is fault


def test_an_answer_is_shown_to_its_first_line_and_escaped() -> None:
    assert answer_shown(PeerAnswers(banner=b"SSH-2.0\x1b]0;x\r\nmore")) == repr("SSH-2.0\x1b]0;x")


def bootstrap(ip: str, *, same: bool) -> Bootstrap:
    return Bootstrap(Address("kafka.example", 9092), ip, "c", is_same_machine=same, is_alone=True)


def way(*ips: str, fault: Fault | None = None) -> Reached:
    found = () if fault is None else (Finding(fault, "x"),)
    error = "" if fault is None else "no route to host"
    return Reached(Address("advertised", 9092), tuple(Tried(ip, error) for ip in ips), findings=found)


def test_a_loopback_address_is_wrong_where_the_bootstrap_is_another_machine_even_if_something_answers() -> None:
    finding = judged(way("127.0.0.1"), bootstrap("192.0.2.1", same=False), {})
    assert finding is not None
    assert finding.fault is Fault.ADVERTISED_LOOPBACK
    assert judged(way("127.0.0.1"), bootstrap("127.0.0.1", same=True), {}) is None


@pytest.mark.parametrize(
    ("advertised", "of_bootstrap", "fault"),
    [
        ("172.18.0.3", "127.0.0.1", Fault.ADVERTISED_CONTAINER),
        ("172.18.0.3", "192.0.2.1", Fault.ADVERTISED_UNREACHABLE),
        ("203.0.113.9", "127.0.0.1", Fault.ADVERTISED_UNREACHABLE),
        ("127.0.0.1", "127.0.0.1", Fault.ADVERTISED_UNREACHABLE),
    ],
)
def test_an_address_of_a_container_is_named_where_the_bootstrap_is_the_host(
    advertised: str, of_bootstrap: str, fault: Fault
) -> None:
    finding = judged(way(advertised, fault=Fault.CONNECTION_TIMEOUT), bootstrap(of_bootstrap, same=True), {})
    assert finding is not None
    assert finding.fault is fault


def test_private_networks_are_those_of_containers() -> None:
    assert is_of_containers(["172.17.0.2", "fd00::3"])
    assert not is_of_containers(["172.17.0.2", "198.51.100.1"])
    assert not is_of_containers(["172.32.0.1"])


@pytest.mark.parametrize(
    ("appended", "which"),
    [
        (1_000 - CLOCK_MS_MAX - 1, "behind"),
        (1_500 + CLOCK_MS_MAX + 1, "ahead"),
        (1_000 - CLOCK_MS_MAX, None),
        (1_500 + CLOCK_MS_MAX, None),
        (1_200, None),
    ],
)
def test_clocks_differ_only_beyond_the_round_trip_and_two_seconds(appended: int, which: str | None) -> None:
    finding = clock_difference("b", appended, 1_000, 1_500)
    assert (finding.facts["which"] if finding is not None else None) == which


def test_partitions_without_a_leader_are_not_named_again_as_out_of_sync() -> None:
    rows = [
        MetadataResponsePartition(partition_index=0, leader_id=-1, replica_nodes=[1, 2], isr_nodes=[2]),
        MetadataResponsePartition(partition_index=1, leader_id=1, replica_nodes=[1, 3], isr_nodes=[1]),
        MetadataResponsePartition(partition_index=2, leader_id=0, replica_nodes=[0, 2], isr_nodes=[0, 2]),
    ]
    found = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1)], topics=[MetadataResponseTopic(name="orders", partitions=rows)]
    )
    offline, lagging = partition_findings(found, "b")
    assert (offline.fault, offline.facts["examples"], offline.facts["brokers"]) == (
        Fault.PARTITIONS_OFFLINE,
        "orders-0",
        "1, 2",
    )
    assert (lagging.fault, lagging.facts["examples"], lagging.facts["brokers"]) == (
        Fault.PARTITIONS_UNDER_REPLICATED,
        "orders-1",
        "3",
    )


def test_a_replication_factor_is_too_high_only_beyond_the_number_of_brokers() -> None:
    assert replication_too_high(INTERNAL_TOPICS[0], 3, 3, "b") is None
    assert replication_too_high(INTERNAL_TOPICS[0], 3, 2, "b") is not None


def test_a_token_says_when_it_ended_and_whom_it_names() -> None:
    body = base64.urlsafe_b64encode(json.dumps({"exp": 90, "iss": "https://issuer.example"}).encode()).decode()
    said = "The token expired 10 s ago; the token names the issuer 'https://issuer.example'."
    assert token_text(f"x.{body.rstrip('=')}.y", 100) == said
    assert token_text("opaque", 100) == "The token is no JWT: its content cannot be read here."


@pytest.mark.parametrize(
    ("host", "names", "named"),
    [
        ("broker-1.example", ("*.example",), True),
        ("a.broker-1.example", ("*.example",), False),
        ("Broker.Example", ("broker.example",), True),
        ("127.0.0.1", ("127.0.0.1",), True),
        ("127.0.0.1", ("*.0.0.1",), False),
        ("::1", ("0:0:0:0:0:0:0:1",), True),
        ("broker", (), False),
    ],
)
def test_a_name_is_in_a_certificate_as_clients_compare_it(host: str, names: tuple[str, ...], named: bool) -> None:
    assert is_named(host, names) is named


def test_an_own_certificate_is_judged_by_its_dates_and_its_names() -> None:
    own = Certificate("CN=a", "CN=ca", ("a",), NOW - dt.timedelta(days=400), NOW + dt.timedelta(days=5))
    faults = [finding.fault for finding, _ in certificate_findings("SSL", "b", own, NOW)]
    assert faults == [Fault.HOST_CERTIFICATE_EXPIRES_SOON, Fault.HOST_CERTIFICATE_NAMES]
    later = own.until + dt.timedelta(seconds=1)
    assert certificate_findings("SSL", "a", own, later)[0][0].fault is Fault.HOST_CERTIFICATE_EXPIRED


def test_a_key_that_is_spelt_nearly_like_another_is_recognized() -> None:
    known = ("log.dirs", "num.partitions")
    assert perhaps_meant(["num.partition", "colour"], known) == {"num.partition": "num.partitions"}


def test_one_fault_at_several_places_is_one_paragraph() -> None:
    report = Report("x")
    for at in ("a:1", "b:2", "c:3"):
        report.found("step", at, Finding(Fault.CLIENT_CERTIFICATE_REQUIRED, at))
    (one,) = report.as_json()["findings"]
    assert one["at"] == ["a:1", "b:2", "c:3"]
