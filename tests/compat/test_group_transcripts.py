"""Transcripts of consumer groups show every difference that matters, and none that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from sordini.broker.groups.consumer.machine.topic_hashes import group_hash, topic_hash
from sordini.protocol.types import TopicId
from tests.compat.consumer_groups import differences
from tests.compat.consumer_groups.differences import Difference, Rule, as_ours
from tests.compat.consumer_groups.playing import compared, transcript, write_transcript
from tests.compat.consumer_groups.rendering import Names, Rendering
from tests.compat.consumer_groups.unordered import unordered
from tests.compat.consumer_groups.written import Written, in_order
from tests.compat.situations.definitions import Definitions
from tests.outside.needs import kafka_clients_jar, kafka_jars
from tests.outside.versions import NEWEST_APACHE_KAFKA

ANSWER = "ConsumerGroupHeartbeatResponse"
CURRENT = "ConsumerGroupCurrentMemberAssignmentValue"
FOO, BAR = b"\1" * 16, b"\2" * 16


@pytest.fixture(scope="module")
def definitions() -> Definitions:
    coordinator = kafka_jars(NEWEST_APACHE_KAFKA) / f"kafka-group-coordinator-{NEWEST_APACHE_KAFKA}.jar"
    return Definitions(kafka_clients_jar(NEWEST_APACHE_KAFKA), coordinator)


@pytest.fixture
def rendering(definitions: Definitions) -> Rendering:
    names = Names("run0")
    names.name_topic(FOO, "foo")
    names.name_topic(BAR, "bar")
    return Rendering(definitions, names)


def assigned(topic_id: bytes = FOO, partitions: tuple[int, ...] = (0,), **fields: Any) -> Any:
    rows = [{"topic_id": topic_id, "partitions": list(partitions)}]
    return {"member_id": "a", "member_epoch": 2, "assignment": {"topic_partitions": rows}, **fields}


def test_each_field_of_an_answer_that_differs_is_another_line(rendering: Rendering) -> None:
    answers = [
        assigned(),
        assigned(BAR),
        assigned(partitions=(1,)),
        assigned(member_epoch=3),
        assigned(member_id="b"),
        assigned(heartbeat_interval_ms=5_000),
        assigned(assignment=None),
        assigned(assignment={"topic_partitions": []}),
        assigned(error_code=25),
        assigned(error_code=110),
        assigned(error_code=110, error_message="fenced"),
        assigned(error_code=110, error_message=""),
    ]
    lines = [rendering.message(ANSWER, 1, answer) for answer in answers]
    assert len(set(lines)) == len(answers)
    assert lines[0] == "member_id=a, member_epoch=2, assignment={topic_partitions=[{topic_id=foo, partitions=[0]}]}"


def test_what_has_no_order_is_put_in_order_and_what_belongs_to_a_partition_goes_with_it(rendering: Rendering) -> None:
    def topic(topic_id: bytes, partitions: list[int], epochs: list[int]) -> Any:
        return {"topic_id": topic_id, "partitions": partitions, "assignment_epochs": epochs}

    one = {"assigned_partitions": [topic(FOO, [1, 0], [7, 8]), topic(BAR, [0], [5])]}
    other = {"assigned_partitions": [topic(BAR, [0], [5]), topic(FOO, [0, 1], [8, 7])]}
    wrong = {"assigned_partitions": [topic(BAR, [0], [5]), topic(FOO, [0, 1], [7, 8])]}
    assert rendering.message(CURRENT, 0, one) == rendering.message(CURRENT, 0, other)
    assert rendering.message(CURRENT, 0, one) != rendering.message(CURRENT, 0, wrong)


def test_ids_that_are_new_in_each_run_have_the_same_name_in_each(definitions: Definitions) -> None:
    def lines(prefix: str) -> list[str]:
        rendering = Rendering(definitions, Names(prefix))
        first, second = f"client-{uuid4()}", f"client-{uuid4()}"
        messages = (f"Member {first} is not a member of group {prefix}-g.", f"{second}", f"{first} {'Ab_-' * 5}xy")
        return [rendering.message(ANSWER, 1, {"error_message": text}) for text in messages]

    assert lines("run0") == lines("run1")
    assert lines("run0")[0] == 'error_message="Member client-M1 is not a member of group g."'
    assert lines("run0")[2] == 'error_message="client-M1 M3"'


def test_a_hash_that_stays_has_one_name_and_a_new_one_another(rendering: Rendering) -> None:
    for partitions in (3, 4):
        rendering.names.hash_topic("run0-foo", FOO, partitions)
    rendering.names.hash_topic("run0-bar", BAR, 2)
    foo, grown = (topic_hash("run0-foo", TopicId(FOO), [()] * partitions) for partitions in (3, 4))
    bar = topic_hash("run0-bar", TopicId(BAR), [()] * 2)
    hashes = (group_hash([bar, foo]), group_hash([bar, foo]), group_hash([bar, grown]), group_hash([foo]), 0)
    assert metadata_lines(rendering, *hashes) == [
        "epoch=1, metadata_hash=H1",
        "epoch=1, metadata_hash=H1",
        "epoch=1, metadata_hash=H2",
        "epoch=1, metadata_hash=H3",
        "epoch=1",
    ]


def test_a_hash_that_is_of_no_topics_of_the_story_is_shown_as_such(rendering: Rendering) -> None:
    rendering.names.hash_topic("run0-foo", FOO, 3)
    rendering.names.hash_topic("run0-bar", BAR, 2)
    foo, bar = topic_hash("run0-foo", TopicId(FOO), [()] * 3), topic_hash("run0-bar", TopicId(BAR), [()] * 2)
    others = (9, group_hash([foo, bar]), group_hash([foo + 1]), foo)
    assert metadata_lines(rendering, *others) == ["epoch=1, metadata_hash=OF-OTHER-TOPICS"] * len(others), (
        "names are sorted, and a topic's hash is not a group's"
    )


def metadata_lines(rendering: Rendering, *hashes: int) -> list[str]:
    return [rendering.message("ConsumerGroupMetadataValue", 0, {"epoch": 1, "metadata_hash": each}) for each in hashes]


def test_members_are_in_the_order_of_their_names_and_topics_of_a_description_too(rendering: Rendering) -> None:
    rendering.names.name("id-9", "M1")
    rendering.names.name("id-1", "M2")
    rows = [{"member_id": each, "group_instance_id": None} for each in ("id-1", "id-9")]
    assert rendering.message("JoinGroupResponse", 9, {"members": rows}) == ("members=[{member_id=M1}, {member_id=M2}]")
    group = {"group_id": "g", "members": [{"member_id": "id-1", "subscribed_topic_names": ["foo", "bar"]}]}
    assert "[bar, foo]" in rendering.message("ConsumerGroupDescribeResponse", 1, {"groups": [group]})
    value = {"subscribed_topic_names": ["foo", "bar"]}
    assert "[foo, bar]" in rendering.message("ConsumerGroupMemberMetadataValue", 0, value)


def test_a_time_is_there_or_not(rendering: Rendering) -> None:
    values = [{"assignment_epoch": 1, "assignment_timestamp": time_ms} for time_ms in (0, 5, 6)]
    lines = [rendering.message("ConsumerGroupTargetAssignmentMetadataValue", 0, value) for value in values]
    assert lines[0] != lines[1] == lines[2]
    values = [{"current_state_timestamp": time_ms} for time_ms in (-1, 0, 5)]
    assert len({rendering.message("GroupMetadataValue", 3, value) for value in values}) == 3


def test_a_subscription_in_bytes_is_shown_as_what_it_is_and_other_bytes_as_they_are(
    rendering: Rendering, definitions: Definitions
) -> None:
    body = b"\0\1" + definitions.encode("ConsumerProtocolSubscription", 1, {"topics": ["run0-foo"]})
    shown = [
        rendering.message("JoinGroupRequest", 9, {"protocols": [{"name": "range", "metadata": metadata}]})
        for metadata in (body, body[:-1])
    ]
    assert shown[0] == "protocols=[{name=range, metadata=v1{topics=[foo]}}]"
    assert body[:-1].hex() in shown[1]


def test_where_chance_decides_who_gets_which_partitions_are_counted(rendering: Rendering) -> None:
    rendering.is_counting = True
    lines = [rendering.message(ANSWER, 1, assigned(partitions=each)) for each in ((0, 1), (2, 1), (1,))]
    assert lines[0] == lines[1] != lines[2]


def _record(kind: str, member: str, *, first: bool = False, deleted: bool = False) -> Written:
    return Written(first, kind, {"member_id": member}, 0, None if deleted else {})


def ordered_by_key(records: list[Written]) -> list[Written]:
    return in_order(records, str)


def test_records_are_in_the_order_of_the_names_of_their_members() -> None:
    names = {"x": "M1", "b": "M2"}
    records = [_record("A", "b", first=True), _record("A", "x")]
    assert [record.key["member_id"] for record in in_order(records, lambda text: names[text])] == ["x", "b"]


def test_records_of_one_kind_in_a_batch_have_no_order_and_kinds_and_batches_have_one() -> None:
    ordered = [_record("A", "a", first=True), _record("A", "b"), _record("B", "a")]
    assert ordered_by_key([_record("A", "b", first=True), _record("A", "a"), _record("B", "a")]) == ordered
    kinds = [_record("B", "a", first=True), _record("A", "a"), _record("A", "b")]
    assert ordered_by_key(kinds) != ordered
    batches = [_record("A", "b", first=True), _record("A", "a", first=True)]
    assert ordered_by_key(batches) == batches
    deleted = [_record("A", "b", first=True, deleted=True), _record("A", "a")]
    assert ordered_by_key(deleted) == deleted


def test_a_transcript_is_read_as_it_was_written_and_keeps_what_is_not_played(tmp_path: Path) -> None:
    write_transcript("family", {"one": ["> a", "< b"], "two": ["> c"]}, ["one", "two"], tmp_path)
    write_transcript("family", {"two": ["> d"], "three": []}, ["three", "two", "one"], tmp_path)
    assert transcript("family", tmp_path) == {"three": [], "two": ["> d"], "one": ["> a", "< b"]}
    assert list(transcript("family", tmp_path)) == ["three", "two", "one"]
    write_transcript("family", {}, ["two"], tmp_path)
    assert list(transcript("family", tmp_path)) == ["two"]


def test_a_line_that_differs_lacks_or_is_too_many_is_a_complaint() -> None:
    recorded = ["> a", "< b", "* c"]
    assert compared(recorded, list(recorded), "Sordini") == []
    for played in (["> a", "< B", "* c"], ["> a", "< b"], ["> a", "< b", "* c", "* c"], ["< b", "> a", "* c"]):
        assert compared(recorded, played, "Sordini")


def test_a_difference_holds_in_the_situations_that_it_names() -> None:
    difference = Difference("a situation", "< b", "< c", "a reason")
    assert as_ours("a situation", ["> a", "< b"], (difference,)) == ["> a", "< c"]
    assert as_ours("another", ["> a", "< b"], (difference,)) == ["> a", "< b"]
    assert as_ours("a situation", ["> a", "< b"], (difference._replace(sentence="a *", ours=None),)) == ["> a"]


def test_a_rule_holds_after_the_requests_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = (Rule("b", "c", "a reason", after="v3"), Rule("gone", None, "a reason"))
    monkeypatch.setattr(differences, "RULES", rules)
    lines = ["> v2", "< b", "> v3", "< b", "* gone", "* stays"]
    assert as_ours("a situation", lines) == ["> v2", "< b", "> v3", "< c", "* stays"]


def test_records_and_sets_are_compared_whatever_their_order() -> None:
    members = ("{member_id=a, x={y=[{z=1}]}}", "{member_id=b}")
    first = ["> q", "* 2", "+ 1", f"< members=[{', '.join(members)}], n=1", "< subscribed_topic_names=[foo, bar]"]
    second = [
        "> q",
        "+ 1",
        "* 2",
        f"< members=[{', '.join(members[::-1])}], n=1",
        "< subscribed_topic_names=[bar, foo]",
    ]
    assert unordered(first) == unordered(second)
    assert unordered(first) != unordered([*first[:3], f"< members=[{members[0]}], n=1", first[4]])
    assert unordered(["< 1", "< 2"]) != unordered(["< 2", "< 1"])
    assert unordered(["> q", "* 1", "< a", "* 2"]) != unordered(["> q", "* 2", "< a", "* 1"])
