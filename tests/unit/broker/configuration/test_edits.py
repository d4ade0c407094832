"""Which edits of settings are allowed and their results: Apache Kafka's rules and codes."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.edits import Edit, Operation, check_edits, edit_broker, edit_topic
from sordini.protocol.errors import BrokerError, ErrorCode

SET, DELETE, APPEND, SUBTRACT = Operation
POLICY = "cleanup.policy"


@pytest.mark.parametrize(
    ("before", "edits", "after"),
    [
        ({}, [Edit("retention.ms", SET, " 5 ")], {"retention.ms": "5"}),
        ({"retention.ms": "5"}, [Edit("retention.ms", DELETE, None)], {}),
        ({"retention.ms": "5"}, [Edit("segment.ms", DELETE, "x")], {"retention.ms": "5"}),
        ({}, [Edit("no.such", DELETE, None)], {}),
        ({}, [Edit(POLICY, APPEND, "compact")], {POLICY: "delete,compact"}),
        ({POLICY: "compact"}, [Edit(POLICY, APPEND, "delete,compact,delete")], {POLICY: "compact,delete"}),
        ({POLICY: "delete, compact"}, [Edit(POLICY, SUBTRACT, "delete")], {POLICY: "compact"}),
        ({POLICY: "compact"}, [Edit(POLICY, SUBTRACT, "compact,delete")], {POLICY: ""}),
        ({}, [Edit(POLICY, SUBTRACT, "compact")], {POLICY: "delete"}),
        (
            {"retention.ms": "5"},
            [Edit("leader.replication.throttled.replicas", APPEND, "0:1,1:2")],
            {"retention.ms": "5", "leader.replication.throttled.replicas": "0:1,1:2"},
        ),
        ({}, [], {}),
    ],
)
def test_edits_change_what_they_name_and_leave_the_rest(
    before: dict[str, str], edits: list[Edit], after: dict[str, str]
) -> None:
    given = dict(before)
    check_edits(edits)
    assert edit_topic(before, edits) == after
    assert before == given


@pytest.mark.parametrize(
    ("edits", "code", "named"),
    [
        ([Edit("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG, "whole number"),
        ([Edit("retention.ms", SET, "-2")], ErrorCode.INVALID_CONFIG, "at least -1"),
        ([Edit("retention.ms", SET, "1_000")], ErrorCode.INVALID_CONFIG, "whole number"),
        ([Edit("no.such", SET, "1")], ErrorCode.INVALID_CONFIG, "no.such"),
        ([Edit("log.retention.ms", SET, "1")], ErrorCode.INVALID_CONFIG, "log.retention.ms"),
        ([Edit("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG, "list"),
        ([Edit("no.such", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG, "list"),
        ([Edit(POLICY, APPEND, "shred")], ErrorCode.INVALID_CONFIG, "compact, delete"),
        ([Edit("leader.replication.throttled.replicas", APPEND, "x")], ErrorCode.INVALID_CONFIG, "partition:broker"),
        ([Edit("remote.storage.enable", SET, "true")], ErrorCode.INVALID_CONFIG, "tiered"),
        ([Edit("message.format.version", SET, "0.10")], ErrorCode.INVALID_CONFIG, "a version"),
        (
            [Edit("min.compaction.lag.ms", SET, "100"), Edit("max.compaction.lag.ms", SET, "50")],
            ErrorCode.INVALID_CONFIG,
            "max.compaction.lag.ms",
        ),
        ([Edit("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST, "no value"),
        ([Edit("no.such", APPEND, None)], ErrorCode.INVALID_REQUEST, "no value"),
        ([Edit("retention.ms", 4, "1")], ErrorCode.INVALID_REQUEST, "operation 4"),
        ([Edit("retention.ms", -1, "1")], ErrorCode.INVALID_REQUEST, "operation -1"),
        (
            [Edit("retention.ms", SET, "1"), Edit("retention.ms", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
            "more than once",
        ),
    ],
)
def test_a_wrong_edit_of_a_topic_is_refused_with_what_is_allowed(edits: list[Edit], code: int, named: str) -> None:
    def change() -> None:
        check_edits(edits)
        edit_topic({}, edits)

    with pytest.raises(BrokerError, match=named) as refusal:
        change()
    assert refusal.value.code == code


def test_two_keys_that_contradict_each_other_are_refused_whichever_came_first() -> None:
    with pytest.raises(BrokerError, match="no more than max"):
        edit_topic({"min.compaction.lag.ms": "100"}, [Edit("max.compaction.lag.ms", SET, "50")])


def test_an_invalid_override_already_stored_is_kept_and_does_not_block_edits_of_other_keys() -> None:
    before = {"theirs": "1", "segment.ms": "soon"}
    assert edit_topic(before, [Edit("retention.ms", SET, "5")]) == {**before, "retention.ms": "5"}
    with pytest.raises(BrokerError, match="theirs"):
        edit_topic(before, [Edit("theirs", SET, "2")])


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("message.max.bytes", "x"),
        ("message.max.bytes", "-5"),
        ("log.cleanup.policy", "shred"),
        ("max.connections.per.ip.overrides", "127.0.0.1:-7"),
        ("max.connections.per.ip.overrides", "x"),
        ("log.dirs", "/x"),
        ("log.retention.hours", "5"),
        ("num.network.threads", "5"),
        ("broker.id", "5"),
        ("group.max.size", "5"),
        ("inter.broker.protocol.version", "3.0"),
        ("ssl.keystore.password", "hush"),
        ("listener.name.plaintext.ssl.engine.factory.class", "some.class"),
        ("some.plugin.ssl.keystore.location", "/etc/shadow"),
        ("metric.reporters", "some.class"),
        ("principal.builder.class", "some.class"),
        ("authorizer.class.name", "some.class"),
        ("delegation.token.secret.key", "hush"),
        ("password.encoder.secret", "hush"),
        ("", "x"),
    ],
)
def test_a_wrong_value_a_key_for_the_start_and_a_key_of_trust_are_refused_of_a_broker(key: str, text: str) -> None:
    with pytest.raises(BrokerError) as refusal:
        edit_broker({}, [Edit(key, SET, text)], is_default=False)
    assert refusal.value.code == ErrorCode.INVALID_REQUEST
    assert "hush" not in str(refusal.value)


def test_a_broker_takes_its_own_keys_those_without_effect_and_those_of_others() -> None:
    edits = [
        Edit("message.max.bytes", SET, "5"),
        Edit("num.io.threads", SET, "9"),
        Edit("leader.replication.throttled.rate", SET, "1000"),
        Edit("of.another.broker", SET, "1"),
        Edit("log.dirs", DELETE, None),
        Edit("log.cleanup.policy", APPEND, "compact"),
    ]
    assert edit_broker({"min.insync.replicas": "2"}, edits, is_default=False) == {
        "min.insync.replicas": "2",
        "message.max.bytes": "5",
        "num.io.threads": "9",
        "leader.replication.throttled.rate": "1000",
        "of.another.broker": "1",
        "log.cleanup.policy": "delete,compact",
    }


def test_only_lists_are_appended_to_of_a_broker() -> None:
    for key in ("message.max.bytes", "of.another.broker"):
        with pytest.raises(BrokerError) as refusal:
            edit_broker({}, [Edit(key, APPEND, "5")], is_default=False)
        assert refusal.value.code == ErrorCode.INVALID_CONFIG


def test_a_list_does_not_grow_past_what_could_be_described() -> None:
    key = "leader.replication.throttled.replicas"
    grown = edit_topic({}, [Edit(key, APPEND, ",".join(f"{number}:1" for number in range(4_000)))])
    with pytest.raises(BrokerError, match="longer than 32767 bytes") as refused:
        edit_topic(grown, [Edit(key, APPEND, ",".join(f"{number}:2" for number in range(4_000)))])
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert edit_topic(grown, [Edit(key, APPEND, "0:1,1:2")])[key].endswith("3999:1,1:2")


@pytest.mark.parametrize(
    "value", [", " * 16_000 + "x", "," + " " * 32_000 + "x", "1:1" + " " * 32_000 + "x", "1" * 32_000]
)
def test_nothing_takes_long_to_be_refused(value: str) -> None:
    """Patterns that try every way to divide the blanks among themselves never come back from these."""
    for key in ("leader.replication.throttled.replicas", "message.format.version", "cleanup.policy", "retention.ms"):
        with pytest.raises(BrokerError):
            edit_topic({}, [Edit(key, SET, value)])


@pytest.mark.parametrize(
    "key",
    [
        "ssl." * 8_000 + "\n",
        "x\n.ssl.keystore.location",
        "." * 32_000 + "class",
        "a\n.password",
        "listener.name." + "x." * 8_000 + "ssl.a",
    ],
)
def test_no_spelling_of_a_key_of_trust_goes_past_the_guard(key: str) -> None:
    with pytest.raises(BrokerError, match=r"only at the start|\.\.\.$"):
        edit_broker({}, [Edit(key, SET, "x")], is_default=False)
