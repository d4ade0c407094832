"""API x entry x principal: what Apache Kafka 3.9.1 allows and refuses, Sordini does, with the same codes.

Both have an authorizer and one SASL listener with users of PLAIN. The same raw requests are sent to both. A run takes
every other question, by SORDINI_ACL_MATRIX=0 or 1; `make matrix` takes all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.compat.acls.questions import QUESTIONS, VARIANTS, Names, Question, applies, entries_of
from tests.compat.situations.definitions import Definitions
from tests.compat.situations.registry import normalise
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker, Conversation
from tests.outside.java import ApacheKafkaProcess
from tests.outside.needs import kafka_clients_jar
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.outside.versions import APACHE_KAFKA

ADMIN, ALICE = "admin", "alice"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin-pw" user_admin="admin-pw" user_alice="alice-pw";'
)
SETTINGS: dict[str, object] = {
    "broker.id": 0,
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
    "log.retention.ms": -1,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
COMPARED = frozenset({"error_code", "name", "topic", "group_id", "key", "topic_authorized_operations"}) | {
    "cluster_authorized_operations",
    "authorized_operations",
    "transactional_id",
    "resource_name",
}
"""The fields of a response that say what was refused, and what about."""
TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND = 29, 30, 69
GROUP_OPERATIONS_BEFORE_4_0 = 1 << 3 | 1 << 6 | 1 << 8
"""READ, DELETE and DESCRIBE."""
GROUP_OPERATIONS_SINCE_4_0 = 1 << 10 | 1 << 11
"""DESCRIBE_CONFIGS and ALTER_CONFIGS."""
OWN_KEYS = ("sordini.", "errors.deadletterqueue.")
"""A topic has keys that Apache Kafka 3.9.1 does not know; they are in the response to CreateTopics."""
OURS_HAS_ROWS = frozenset({"OffsetFetch of one group"})
HALF = os.environ.get("SORDINI_ACL_MATRIX", "")
ASKED = QUESTIONS if HALF == "all" else QUESTIONS[int(HALF) :: 2] if HALF else QUESTIONS[::8]
CASES = [(one, variant) for one in ASKED for variant in (*VARIANTS, "super user") if applies(one, variant)]


class SaslBroker(Broker):
    """The broker as one user reaches it."""

    user = ADMIN

    def connect(self) -> Conversation:
        conversation = super().connect()
        assert conversation.ask("SaslHandshake", 1, mechanism="PLAIN")["error_code"] == 0
        token = f"\0{self.user}\0{self.user}-pw".encode()
        assert conversation.ask("SaslAuthenticate", 2, auth_bytes=token)["error_code"] == 0
        return conversation


class Two(dict[str, SaslBroker]):
    """One broker as the administrator and as alice see it."""

    def entries(self, api: str, rows: list[Any]) -> None:
        """Add entries, or remove all of alice's and everybody's."""
        answer = self[ADMIN].ask(api, 3, **{"creations" if api == "CreateAcls" else "filters": rows})
        for row in answer["results" if api == "CreateAcls" else "filter_results"]:
            assert row["error_code"] == 0, answer

    def forget_entries(self) -> None:
        everything = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
        everything |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
        self.entries("DeleteAcls", [everything])


def _reached(process: BrokerProcess, definitions: Definitions) -> Two:
    prefix = f"run{uuid4().hex[:8]}"
    found = Two({user: SaslBroker("127.0.0.1", process.port, definitions, prefix=prefix) for user in (ADMIN, ALICE)})
    found[ALICE].user = ALICE
    until(lambda: found[ADMIN].ask("Metadata", 9, topics=[]), lambda seen: bool(seen["brokers"]))
    return found


@pytest.fixture(scope="module")
def definitions() -> Definitions:
    return Definitions(kafka_clients_jar(APACHE_KAFKA))


@pytest.fixture(scope="module")
def apache(zookeeper: str, definitions: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    directory = tmp_path_factory.mktemp("acls-apache")
    process = ApacheKafkaProcess(directory, f"{zookeeper}/acls-{uuid4().hex[:8]}", SETTINGS)
    process.settings |= {"listeners": f"SASL_PLAINTEXT://{process.bootstrap}", "zookeeper.session.timeout.ms": 18_000}
    with process:
        yield from _used(_reached(process, definitions))


@pytest.fixture(scope="module")
def sordini(definitions: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    process = SordiniProcess(tmp_path_factory.mktemp("acls-sordini"), SETTINGS)
    process.overrides["listeners"] = f"SASL_PLAINTEXT://{process.bootstrap}"
    with process:
        yield from _used(_reached(process, definitions))


def _used(two: Two) -> Iterator[Two]:
    for kind, key in enumerate(("a-group", "a-transaction")):  # The coordinators' topics are there, and loaded.
        until(
            lambda kind=kind, key=key: two[ADMIN].ask("FindCoordinator", 3, key=key, key_type=kind),  # type: ignore[misc]
            lambda seen: seen["error_code"] == 0,
        )
    until(
        lambda: two[ADMIN].ask("InitProducerId", 4, transactional_id="a-transaction", transaction_timeout_ms=1_000),
        lambda seen: seen["error_code"] == 0,
    )
    until(
        lambda: two[ADMIN].ask("DescribeGroups", 5, groups=["a-group"]),
        lambda seen: seen["groups"][0]["error_code"] == 0,
    )
    yield two
    for broker in two.values():
        broker.close()


def play(two: Two, question: Question, variant: str) -> Any:
    """What the user is answered, with the entries of the variant in force."""
    number = CASES.index((question, variant))
    prefix = two[ADMIN].prefix
    names = Names(f"{prefix}-t{number}e", f"{prefix}-n{number}e", f"{prefix}-g{number}e", f"{prefix}-x{number}e")
    if question.has_topic:
        two[ADMIN].create(f"t{number}e")
        until(
            lambda: two[ADMIN].ask("Metadata", 9, topics=[{"name": names.t}])["topics"][0],
            lambda seen: seen["error_code"] == 0 and seen["partitions"][0]["leader_id"] == 0,
        )
    user = ADMIN if variant == "super user" else ALICE
    entries = [] if user == ADMIN else entries_of(question, variant, names, "User:alice")
    if entries:
        two.entries("CreateAcls", [entry._asdict() for entry in entries])
    two[user].close()  # Ours ends a connection on which another transactional id goes on.
    answer = two[user].ask(question.api, question.version, **question.fields(names))
    if entries:
        two.forget_entries()
    return compared(normalise(answer, prefix), prefix)


def compared(value: Any, prefix: str) -> Any:
    """The compared fields of an answer; rows are sorted, because those that are refused may come last."""
    if isinstance(value, dict):
        kept = {key: compared(inner, prefix) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if key in COMPARED or inner not in ({}, [], None)}
    if isinstance(value, list):
        rows = [compared(inner, prefix) for inner in value]
        return sorted((row for row in rows if row not in ({}, None)), key=json.dumps)
    return value


def of_compared_fields(value: Any) -> Any:
    """Without the fields that say other things."""
    if isinstance(value, dict):
        kept = {
            key: of_compared_fields(inner)
            for key, inner in value.items()
            if key in COMPARED or isinstance(inner, dict | list)
        }
        return {key: inner for key, inner in kept.items() if inner not in ({}, [])}
    if isinstance(value, list):
        rows = [row for row in map(of_compared_fields, value) if isinstance(row, dict) and row]
        return [row for row in rows if not str(row.get("name", "")).startswith(OWN_KEYS)]
    return value


@pytest.mark.parametrize(("question", "variant"), CASES, ids=[f"{one.title} - {variant}" for one, variant in CASES])
def test_the_same_is_allowed_and_refused_as_by_apache_kafka(
    apache: Two, sordini: Two, question: Question, variant: str
) -> None:
    theirs, ours = (of_compared_fields(play(two, question, variant)) for two in (apache, sordini))
    if question.title in OURS_HAS_ROWS and theirs == {"error_code": GROUP_AUTHORIZATION_FAILED}:
        # A version with one group: the same code, which ours repeats for each partition.
        assert ours["error_code"] == theirs["error_code"]
        return
    if question.title == "OffsetDelete" and theirs == {"error_code": GROUP_ID_NOT_FOUND} and "topics" in ours:
        # No topic is allowed and the group is not there: ours refuses the topic, Apache Kafka tells of the group.
        assert [row["error_code"] for row in ours["topics"][0]["partitions"]] == [TOPIC_AUTHORIZATION_FAILED]
        return
    for row in theirs.get("groups", []) if question.title == "DescribeGroups" else []:
        # Who may do all is told so of the two operations, too, that groups have since Apache Kafka 4.0.
        if row.get("authorized_operations") == GROUP_OPERATIONS_BEFORE_4_0:
            row["authorized_operations"] |= GROUP_OPERATIONS_SINCE_4_0
    assert ours == theirs, f"Apache Kafka: {theirs}"


def test_the_matrix_is_large_and_has_each_case_once() -> None:
    assert len(CASES) >= (300 if HALF == "all" else 200 if HALF else 40)
    assert len({(one.title, variant) for one, variant in CASES}) == len(CASES)
    assert (Path(__file__).parent / "acls").is_dir()
