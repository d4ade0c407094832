"""Our assignors beside Apache Kafka's own classes: the same groups to both, the same assignment from both."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordini.broker.groups.consumer.machine.assignors.by_name import ASSIGNORS
from sordini.broker.groups.consumer.machine.assignors.group import Assignment, Group, Partitions
from sordini.protocol.types import topic_id_text
from tests.compat.coordinator_classes.java_judge import answers
from tests.support.assignor_groups import GroupMaker, assigned
from tests.support.parts import PART

SEEDS = range(10_000) if PART == "all" else range(300 * int(PART or 0), 300 * (int(PART or 0) + 1))


def test_assignments_are_those_of_apache_kafka(tmp_path: Path) -> None:
    cases = [(seed, name, GroupMaker(seed).group()) for seed in SEEDS for name in ASSIGNORS]
    sizes = {len(group.members) for _, _, group in cases}
    assert len(sizes) > 10
    judged = answers("AssignorJudge", (as_case(name, group) for _, name, group in cases), tmp_path)
    different = [
        f"seed {seed}, {name}: {answer}"
        for (seed, name, group), answer in zip(cases, judged, strict=True)
        if comparable(group, assigned(name, group)) != comparable_answer(group, answer)
    ]
    assert not different, f"{len(different)} of {len(cases)}: {different[0]}"


@pytest.mark.parametrize("name", ASSIGNORS)
def test_groups_of_all_kinds_are_compared(name: str) -> None:
    """The seeds of a run have both kinds of subscriptions, targets so far, static members, and moves."""
    groups = [GroupMaker(seed).group() for seed in SEEDS[:300]]
    members = [member for group in groups for member in group.members.values()]
    assert sum(group.is_homogeneous for group in groups) in range(60, 240)
    assert any(member.instance_id for member in members)
    assert any(member.target for member in members)
    assert any(assigned(name, group)[key] != member.target for group in groups for key, member in group.members.items())


def as_case(name: str, group: Group) -> dict[str, object]:
    return {
        "assignor": name,
        "type": "HOMOGENEOUS" if group.is_homogeneous else "HETEROGENEOUS",
        "counts": {topic_id_text(topic_id): count for topic_id, count in group.partition_counts.items()},
        "members": [
            {
                "id": member_id,
                "instance": member.instance_id,
                "topics": [topic_id_text(topic_id) for topic_id in sorted(member.subscribed_topics)],
                "target": [
                    [topic_id_text(topic_id), sorted(partitions)]
                    for topic_id, partitions in sorted(member.target.items())
                ],
            }
            for member_id, member in sorted(group.members.items())
        ],
    }


def comparable(group: Group, assignment: Assignment) -> dict[str, dict[str, list[int]]]:
    assert assignment.keys() == group.members.keys()
    return {member_id: as_answer(partitions) for member_id, partitions in assignment.items()}


def as_answer(partitions: Partitions) -> dict[str, list[int]]:
    return {topic_id_text(topic_id): sorted(numbers) for topic_id, numbers in partitions.items()}


def comparable_answer(group: Group, answer: dict[str, dict[str, list[int]]]) -> dict[str, dict[str, list[int]]]:
    """Apache Kafka leaves a member out where there is nothing at all to assign; its coordinator takes that as empty."""
    return {member_id: answer.get(member_id, {}) for member_id in group.members}
