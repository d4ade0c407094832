"""The assignor of share groups beside Apache Kafka's own class: the same groups to both, the same targets from both."""

from __future__ import annotations

from pathlib import Path

from sordini.broker.groups.consumer.machine.assignors.group import Partitions
from sordini.broker.groups.share.machine.simple_assignor import AssignableGroup
from sordini.protocol.types import topic_id_text
from tests.compat.coordinator_classes.java_judge import answers
from tests.support.parts import PART
from tests.support.share_assignor_groups import ShareGroupMaker, assigned

GROUPS = 1_500
SEEDS = range(10_000) if PART == "all" else range(GROUPS * int(PART or 0), GROUPS * (int(PART or 0) + 1))


def test_targets_are_those_of_apache_kafka(tmp_path: Path) -> None:
    groups = [ShareGroupMaker(seed).group() for seed in SEEDS]
    assert sum(group.is_homogeneous for group in groups) > GROUPS // 4
    assert sum(not group.is_homogeneous for group in groups) > GROUPS // 4
    assert any(len(partitions) > 1 for group in groups for partitions in group.assignable.values())
    judged = answers("SimpleJudge", map(as_case, groups), tmp_path)
    compared = [row for row in zip(SEEDS, groups, judged, strict=True) if row[2] is not None]
    assert len(compared) > 0.9 * len(groups), "Apache Kafka's class fails where partitions were taken out of use"
    different = [
        f"seed {seed}: {answer}"
        for seed, group, answer in compared
        if {name: as_answer(found) for name, found in assigned(group).items()}
        != {name: answer.get(name, {}) for name in group.members}
    ]
    assert not different, f"{len(different)} of {len(compared)}: {different[0]}"


def as_case(group: AssignableGroup) -> dict[str, object]:
    return {
        "type": "HOMOGENEOUS" if group.is_homogeneous else "HETEROGENEOUS",
        "topics": {
            topic_id_text(topic): {"count": max(found, default=-1) + 1, "assignable": sorted(found)}
            for topic, found in group.assignable.items()
        },
        "members": [
            {
                "id": name,
                "topics": [topic_id_text(topic) for topic in sorted(member.subscribed_topics)],
                "target": [[topic_id_text(topic), sorted(found)] for topic, found in sorted(member.target.items())],
            }
            for name, member in sorted(group.members.items())
        ],
    }


def as_answer(partitions: Partitions) -> dict[str, list[int]]:
    return {topic_id_text(topic): sorted(found) for topic, found in partitions.items()}
