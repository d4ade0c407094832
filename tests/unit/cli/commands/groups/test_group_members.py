"""Which member of a consumer group waits for which, and how a person sees it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sordini.admin.groups.group_description import CLASSIC, CONSUMER, GroupDescription, GroupMember
from sordini.cli.commands.groups.group_members import (
    member_paragraphs,
    member_rows,
    members_text,
    partitions_text,
    pending_moves,
)
from sordini.protocol.types import TopicPartition

PARTITIONS = [TopicPartition("orders", number) for number in range(4)]
MEMBER_IDS = st.sampled_from([None, "a", "b", "c"])


def numbered(digits: str | None) -> list[TopicPartition] | None:
    return None if digits is None else [PARTITIONS[int(digit)] for digit in digits]


def a_member(member_id: str, has: str = "", target: str | None = "", **fields: Any) -> GroupMember:
    """A member by the numbers of its partitions of `orders`."""
    others = {"instance_id": None, "client_id": "app", "host": "/10.0.0.7", "protocol": CONSUMER, "epoch": 3}
    described = {**others, "subscribed_topics": ["orders"], **fields}
    return GroupMember(member_id, partitions=numbered(has), target=numbered(target), **described)


def a_group(*members: GroupMember, kind: str = CONSUMER) -> dict[str, Any]:
    described = GroupDescription("g", "Reconciling", kind, CONSUMER, "uniform", "127.0.0.1:9092", [*members], 4, 4)
    moves = pending_moves(described.members) if kind == CONSUMER else None
    return {"type": kind, "members": member_rows(described), "pending_moves": moves}


def moves_of(*members: GroupMember) -> list[tuple[int, str | None, str | None]]:
    return [(move["partition"], move["from"], move["to"]) for move in pending_moves(members)]


def test_a_partition_that_its_member_has_yet_to_give_up_moves_to_the_member_whose_target_has_it() -> None:
    assert moves_of(a_member("a", "012", "01"), a_member("b", "", "2")) == [(2, "a", "b")]


def test_a_free_partition_comes_from_no_member_and_one_without_a_target_goes_to_none() -> None:
    assert moves_of(a_member("a", "0", "")) == [(0, "a", None)]
    assert moves_of(a_member("a", "", "0")) == [(0, None, "a")]


@given(
    st.fixed_dictionaries(dict.fromkeys(PARTITIONS, MEMBER_IDS)),
    st.fixed_dictionaries(dict.fromkeys(PARTITIONS, MEMBER_IDS)),
)
def test_the_pending_moves_lead_from_what_members_have_to_their_targets(
    owners: dict[TopicPartition, str | None], targets: dict[TopicPartition, str | None]
) -> None:
    members = [
        a_member(member_id)._replace(
            partitions=[partition for partition, owner in owners.items() if owner == member_id],
            target=[partition for partition, owner in targets.items() if owner == member_id],
        )
        for member_id in ("a", "b", "c")
    ]
    moved = {**owners}
    for move in pending_moves(members):
        partition = TopicPartition(move["topic"], move["partition"])
        assert move["from"] == owners[partition] != move["to"]
        moved[partition] = move["to"]
    assert moved == targets


def test_a_table_of_a_consumer_group_has_epochs_protocols_and_the_pending_moves() -> None:
    old = a_member("long-1", "1", "1", protocol=CLASSIC, epoch=4)
    text = members_text(a_group(a_member("long-2", "03", "0", instance_id="till-7"), old, a_member("long-3", "", "23")))
    assert text.splitlines() == [
        "MEMBER  INSTANCE  CLIENT  PROTOCOL  EPOCH  HOST      ASSIGNED",
        "long-2  till-7    app     consumer      3  10.0.0.7  orders:0,3",
        "long-1  -         app     classic       4  10.0.0.7  orders:1",
        "long-3  -         app     consumer      3  10.0.0.7  -",
        "",
        "2 partitions are yet to move: TO gets each once FROM has given it up.",
        "",
        "PARTITION  FROM    TO",
        "orders:2   -       long-3",
        "orders:3   till-7  long-3",
    ]


def test_a_table_of_a_reconciled_group_has_no_moves() -> None:
    assert "\n\n" not in members_text(a_group(a_member("a", "01", "01")))


def test_a_table_of_a_classic_group_is_as_it_was() -> None:
    text = members_text(
        a_group(a_member("a", "01", None, protocol=CLASSIC, epoch=None, instance_id="till-7"), kind=CLASSIC)
    )
    assert text.splitlines() == [
        "MEMBER  INSTANCE  CLIENT  HOST      ASSIGNED",
        "a       till-7    app     10.0.0.7  orders:0,1",
    ]


def test_a_paragraph_says_who_waits_for_whom() -> None:
    giving = a_member("a", "012", "0", instance_id="till-7", rack_id="east")
    waiting = a_member("b", "", "13", subscribed_topics=[], subscribed_regex="ord.*")
    assert member_paragraphs(a_group(giving, waiting)).splitlines() == [
        "Member       a",
        "Instance     till-7",
        "Rack         east",
        "Client       app at 10.0.0.7",
        "Protocol     consumer, epoch 3",
        "Subscribed   orders",
        "Assigned     orders:0,1,2",
        "Target       orders:0",
        "To revoke    orders:1 (for b)",
        "To revoke    orders:2 (for no member)",
        "",
        "Member       b",
        "Client       app at 10.0.0.7",
        "Protocol     consumer, epoch 3",
        "Regex        ord.*",
        "Assigned     -",
        "Target       orders:1,3",
        "Waits for    orders:1 (from till-7)",
        "Waits for    orders:3 (free, with the next heartbeat)",
    ]


def test_a_paragraph_of_a_classic_group_has_what_its_members_say() -> None:
    plain = a_member("a", "0", None, protocol=CLASSIC, epoch=None, subscribed_topics=None)
    assert member_paragraphs(a_group(plain, kind=CLASSIC)).splitlines()[1:] == [
        "Client       app at 10.0.0.7",
        "Protocol     classic",
        "Subscribed   -",
        "Assigned     orders:0",
    ]


def test_text_of_a_client_is_escaped() -> None:
    hostile = a_member("a\x1b[31m", "0", "", instance_id="i\nsordini is well", rack_id="\x07", subscribed_regex="\x1b")
    for text in (members_text(a_group(hostile)), member_paragraphs(a_group(hostile))):
        assert {letter for letter in text if not letter.isprintable()} == {"\n"}
        assert "\nsordini" not in text


def test_partitions_are_grouped_by_topic() -> None:
    rows = [
        {"topic": "orders", "partition": 0},
        {"topic": "orders", "partition": 2},
        {"topic": "bills", "partition": 1},
    ]
    assert partitions_text(rows) == "orders:0,2 bills:1"
    assert partitions_text([]) is None
