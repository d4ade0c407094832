"""`sordini groups` with groups of both kinds, whose members are librdkafka's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.outside.processes import SordiniProcess
from tests.process.test_cli import run_here
from tests.support.group_consumer import GroupConsumer, joined, poll_until

Run = Callable[..., str]
Join = Callable[..., GroupConsumer]
SETTINGS = {
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.assignment.interval.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
}
PROTOCOLS = ("classic", "consumer")
STOP_FIRST = "offsets can be reset only while it is empty. Stop its consumers first"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SordiniProcess]:
    with SordiniProcess(tmp_path_factory.mktemp("groups"), SETTINGS) as made:
        yield made


@pytest.fixture
def run(broker: SordiniProcess) -> Run:
    """What `sordini groups` prints: to standard output, and what it refuses to standard error."""

    def run_groups(*words: str, code: int = 0) -> str:
        done = run_here(broker.bootstrap, "groups", *words, code=code)
        return done.stderr if code else done.stdout

    return run_groups


@pytest.fixture
def orders(broker: SordiniProcess, topic: str, tmp_path: Path) -> str:
    """A topic of three partitions with one record in each."""
    run_here(broker.bootstrap, "topics", "create", topic, "--partitions", "3")
    for number in range(3):
        lines = tmp_path / str(number)
        lines.write_text(f"{number}\n")
        run_here(broker.bootstrap, "produce", topic, "--partition", str(number), "--file", str(lines))
    return topic


@pytest.fixture
def join(broker: SordiniProcess) -> Iterator[Join]:
    """Members of groups, which leave at the end of the test."""
    with ExitStack() as stack:
        yield lambda *names, **settings: stack.enter_context(joined(broker.bootstrap, *names, **settings))


def described(run: Run, group: str) -> dict[str, Any]:
    (found,) = json.loads(run("describe", group, "--json"))
    assert isinstance(found, dict)
    return found


def names(run: Run, *filters: str) -> list[str]:
    return [row["group"] for row in json.loads(run("list", *filters, "--json"))]


def settings_of(protocol: str) -> dict[str, object]:
    return {"group.protocol": protocol, **({"heartbeat.interval.ms": 50} if protocol == "classic" else {})}


def test_groups_are_listed_and_filtered_by_type_and_state(run: Run, orders: str, join: Join) -> None:
    groups = {protocol: f"{protocol}-{orders}" for protocol in PROTOCOLS}
    members = [join(group, orders, **settings_of(protocol)) for protocol, group in groups.items()]
    poll_until(members, lambda: all(len(member.partitions) == 3 for member in members))
    poll_until(members, lambda: set(groups.values()) <= {*names(run, "--state", "stable")})
    for protocol, other in (PROTOCOLS, reversed(PROTOCOLS)):
        listed = names(run, "--type", protocol.title())
        assert groups[protocol] in listed
        assert groups[other] not in listed
        assert groups[protocol] in names(run, "--type", protocol, "--state", "Stable")
        assert groups[protocol] not in names(run, "--type", protocol, "--state", "Empty")
        assert groups[protocol] in names(run, "--type", protocol, "--type", other)
    row = next(line.split() for line in run("list").splitlines() if line.startswith(groups["consumer"]))
    assert row == [groups["consumer"], "Stable", "consumer", "consumer", row[-1]]


def test_a_consumer_group_is_described_with_all_that_its_coordinator_knows(run: Run, orders: str, join: Join) -> None:
    group = f"described-{orders}"
    member = join(group, orders, **{"client.id": "till", "group.instance.id": "till-7", "client.rack": "east"})
    poll_until([member], lambda: len(member.values) == 3)
    poll_until([member], lambda: {row["lag"] for row in described(run, group)["offsets"]} == {0})
    found = described(run, group)
    assert [found[key] for key in ("group", "type", "state", "protocol", "assignor")] == [
        group,
        "consumer",
        "Stable",
        "consumer",
        "uniform",
    ]
    assert found["group_epoch"] == found["assignment_epoch"] == found["members"][0]["member_epoch"]
    assert found["pending_moves"] == []
    partitions = [{"topic": orders, "partition": number} for number in range(3)]
    (shown,) = found["members"]
    assert shown == {
        "member_id": member.member_id,
        "instance_id": "till-7",
        "rack_id": "east",
        "client_id": "till",
        "host": "/127.0.0.1",
        "protocol": "consumer",
        "member_epoch": found["group_epoch"],
        "subscribed_topics": [orders],
        "subscribed_regex": None,
        "partitions": partitions,
        "target_partitions": partitions,
    }
    assert {(row["committed_offset"], row["end_offset"], row["member_id"]) for row in found["offsets"]} == {
        (1, 1, member.member_id)
    }
    text = run("describe", group)
    assert "\nType         consumer\nState        Stable\nAssignor     uniform\nEpochs       group " in text
    assert f"\n\nMember       {member.member_id}\nInstance     till-7\nRack         east\n" in run(
        "describe", group, "--members"
    )


def test_a_regular_expression_is_shown_as_the_subscription(run: Run, orders: str, join: Join) -> None:
    group = f"regex-{orders}"
    member = join(group, f"^{orders}.*")
    poll_until([member], lambda: len(member.partitions) == 3)
    (shown,) = described(run, group)["members"]
    # librdkafka joins its regular expressions.
    assert (shown["subscribed_topics"], shown["subscribed_regex"]) == ([], f"(^{orders}.*)")
    assert f"\nRegex        (^{orders}.*)\n" in run("describe", group, "--members")


def test_it_is_shown_which_member_waits_for_which(run: Run, orders: str, join: Join) -> None:
    group = f"waiting-{orders}"
    first = join(group, orders)
    poll_until([first], lambda: len(first.partitions) == 3)
    second = join(group, orders)  # The first one is not polled, and gives nothing up.
    poll_until([second], lambda: described(run, group)["pending_moves"] != [])
    found = described(run, group)
    assert found["state"] == "Reconciling"
    assert {(move["from"], move["to"]) for move in found["pending_moves"]} == {(first.member_id, second.member_id)}
    (moved,) = {move["partition"] for move in found["pending_moves"]}
    epochs = {member["member_id"]: member["member_epoch"] for member in found["members"]}
    assert epochs[first.member_id] < epochs[second.member_id] == found["assignment_epoch"]
    text = run("describe", group)
    assert "1 partition is yet to move: TO gets it once FROM has given it up.\n\nPARTITION" in text
    assert text.splitlines()[-1].split() == [f"{orders}:{moved}", first.member_id, second.member_id]
    paragraphs = run("describe", group, "--members")
    assert f"To revoke    {orders}:{moved} (for {second.member_id})" in paragraphs
    assert f"Waits for    {orders}:{moved} (from {first.member_id})" in paragraphs
    poll_until([first, second], lambda: described(run, group)["state"] == "Stable")
    assert described(run, group)["pending_moves"] == []


def test_a_group_whose_members_speak_both_protocols_is_a_consumer_group(run: Run, orders: str, join: Join) -> None:
    group = f"mixed-{orders}"
    old = join(group, orders, **settings_of("classic"))
    poll_until([old], lambda: len(old.partitions) == 3)
    assert [described(run, group)[key] for key in ("type", "group_epoch", "pending_moves")] == ["classic", None, None]
    (shown,) = described(run, group)["members"]
    assert [shown[key] for key in ("protocol", "subscribed_topics", "member_epoch")] == ["classic", [orders], None]
    new = join(group, orders)
    poll_until([old, new], lambda: described(run, group)["state"] == "Stable" and len(new.partitions) > 0)
    found = described(run, group)
    assert found["type"] == "consumer"
    assert {member["member_id"]: member["protocol"] for member in found["members"]} == {
        old.member_id: "classic",
        new.member_id: "consumer",
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_are_reset_and_deleted_only_while_a_group_of_either_kind_is_empty(
    run: Run, orders: str, join: Join, protocol: str
) -> None:
    group = f"{protocol}-{orders}"
    member = join(group, orders, **settings_of(protocol))
    poll_until([member], lambda: len(member.values) == 3)
    poll_until([member], lambda: {row["lag"] for row in described(run, group)["offsets"]} == {0})
    for execute in ((), ("--execute",)):
        refused = run("reset", group, "--all-topics", "--to-earliest", *execute, code=1)
        assert refused == f"sordini: group '{group}' is Stable with 1 member: {STOP_FIRST}\n"
    assert run("delete", group, "--yes", code=1) == (
        f"sordini: group '{group}': it has members; stop them first (NON_EMPTY_GROUP)\n"
    )
    assert run("delete-offsets", group, "--topic", f"{orders}:0", "--yes", code=1) == (
        f"sordini: the offset of {orders}-0: members of the group read the topic; stop them first "
        "(GROUP_SUBSCRIBED_TO_TOPIC)\n"
    )
    member.close()
    assert described(run, group)["state"] == "Empty"
    run("reset", group, "--topic", f"{orders}:0,1", "--to-earliest", "--execute")
    assert [row["lag"] for row in described(run, group)["offsets"]] == [1, 1, 0]
    assert described(run, group)["type"] == protocol, "a reset changes no group's kind"
    run("delete-offsets", group, "--topic", f"{orders}:1", "--yes")
    assert [row["partition"] for row in described(run, group)["offsets"]] == [0, 2]
    again = join(group, orders, **settings_of(protocol), **{"auto.offset.reset": "latest"})
    poll_until([again], lambda: again.values == [b"0"])
    again.close()
    run("delete", group, "--yes")
    assert "does not exist" in run("describe", group, code=1)


def rebalances(run: Run, group: str) -> list[dict[str, Any]]:
    found = json.loads(run("history", group, "--json"))["rebalances"]
    assert isinstance(found, list)
    return found


def test_the_history_of_a_consumer_group_says_how_long_each_partition_had_no_owner(
    run: Run, orders: str, join: Join
) -> None:
    group = f"history-{orders}"
    first = join(group, orders)
    poll_until([first], lambda: len(first.partitions) == 3)
    second = join(group, orders)
    poll_until([first, second], lambda: len(second.partitions) == 1)
    poll_until([first, second], lambda: rebalances(run, group)[-1]["ended"] is not None)
    came, joined_row = rebalances(run, group)
    assert {row["protocol"] for row in (came, joined_row)} == {"consumer"}
    assert [move["without_owner_ms"] for move in came["moves"]] == [None] * 3
    (moved,) = joined_row["moves"]
    assert (moved["from"], moved["to"]) == (first.member_id, second.member_id)
    assert 0 <= moved["without_owner_ms"] <= joined_row["duration_ms"]
    assert joined_row["began"] <= moved["released"] <= joined_row["ended"]
    second_id = second.member_id
    second.close()
    poll_until([first], lambda: len(first.partitions) == 3)
    left = rebalances(run, group)[-1]
    assert [(cause["cause"], cause["member_id"]) for cause in left["causes"]] == [("member_left", second_id)]
    assert [(move["from"], move["to"]) for move in left["moves"]] == [(second_id, first.member_id)]
    text = run("history", group)
    assert re.search(r"^BEGAN +TOOK +EPOCH +MEMBERS +MOVED +LONGEST WITHOUT OWNER +WHY$", text, re.MULTILINE), text
    # An id may contain a "+".
    move = rf"^{orders}:\d +{re.escape(second_id)} +{re.escape(first.member_id)} +\d+\.\d{{3}} s$"
    assert re.search(move, text, re.MULTILINE), text


def test_a_group_that_changes_its_protocol_keeps_its_history(run: Run, orders: str, join: Join) -> None:
    group = f"both-{orders}"
    old = join(group, orders, **settings_of("classic"))
    poll_until([old], lambda: len(old.partitions) == 3)
    new = join(group, orders)
    poll_until([old, new], lambda: bool(new.partitions))
    assert [row["protocol"] for row in rebalances(run, group)[:2]] == ["classic", "consumer"]
    causes = [cause["cause"] for cause in rebalances(run, group)[1]["causes"]]
    assert causes == ["protocol_changed", "member_joined"]
    new.close()
    poll_until([old], lambda: len(old.partitions) == 3)
    last = rebalances(run, group)[-1]
    assert (last["protocol"], last["causes"][0]["cause"]) == ("classic", "protocol_changed")
    assert "GENERATION, EPOCH" in run("history", group)


def test_a_classic_group_has_a_paragraph_for_each_member_too(run: Run, orders: str, join: Join) -> None:
    group = f"paragraphs-{orders}"
    run("reset", group, "--topic", orders, "--to-earliest", "--execute")
    assert run("describe", group, "--members").endswith("\n\nThere are no members.\n")
    member = join(group, orders, **settings_of("classic"))
    poll_until([member], lambda: len(member.partitions) == 3)
    poll_until([member], lambda: described(run, group)["state"] == "Stable")
    paragraph = run("describe", group, "--members").split("\n\n")[-1]
    assert paragraph.splitlines() == [
        f"Member       {member.member_id}",
        "Client       rdkafka at 127.0.0.1",
        "Protocol     classic",
        f"Subscribed   {orders}",
        f"Assigned     {orders}:0,1,2",
    ]


def test_a_broker_that_switched_consumer_groups_off_is_served_as_an_older_one(
    start_sordini: Callable[..., SordiniProcess], topic: str
) -> None:
    broker = start_sordini({"group.coordinator.rebalance.protocols": "classic", "offsets.topic.num.partitions": 1})
    run_here(broker.bootstrap, "topics", "create", topic)
    run_here(broker.bootstrap, "groups", "reset", "g", "--topic", topic, "--to-earliest", "--execute")
    assert "Type         classic\nState        Empty" in run_here(broker.bootstrap, "groups", "describe", "g").stdout
    assert "does not exist" in run_here(broker.bootstrap, "groups", "describe", "none", code=1).stderr
    assert run_here(broker.bootstrap, "groups", "list", "--type", "consumer").stdout == ""
