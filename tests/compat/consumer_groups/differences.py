"""The lines of transcripts that are otherwise with Sordini, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class Difference(NamedTuple):
    """In transcripts of situations whose sentence matches, a line that is `theirs` is `ours`; None: it is not there."""

    sentence: str
    theirs: str
    ours: str | None
    why: str


UNKNOWN_SHARE_PARTITIONS = (
    "DescribeShareGroupOffsets of unknown topics and partitions, and of those that the group does not read"
)
FAILED = 'groups=[{group_id=g, error_code=UNKNOWN_SERVER_ERROR, error_message="The server experienced an unexpected error when processing the request."}]'

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "a commit by topic ids: known, unknown, zero, and twice",
        "< topics=[{topic_id=05050505050505050505050505050505, partitions=[{error_code=UNKNOWN_TOPIC_ID}]}, {partitions=[{error_code=UNKNOWN_TOPIC_ID}]}, {topic_id=foo, partitions=[{}, {}]}]",
        "< topics=[{topic_id=05050505050505050505050505050505, partitions=[{error_code=UNKNOWN_TOPIC_ID}]}, {partitions=[{error_code=UNKNOWN_TOPIC_ID}]}, {topic_id=foo, partitions=[{}]}, {topic_id=foo, partitions=[{}]}]",
        "A topic that is named twice is answered twice, as in all versions before.",
    ),
    Difference(
        UNKNOWN_SHARE_PARTITIONS,
        "< no answer",
        "< groups=[{group_id=g, topics=[{topic_name=foo, topic_id=foo, partitions=[{start_offset=-1}, {partition_index=3, start_offset=-1}]}]}]",
        "A partition that there is not is answered as one of an unknown topic; Apache Kafka asks for its state again and again.",
    ),
    Difference(
        UNKNOWN_SHARE_PARTITIONS,
        f"< {FAILED}",
        "< groups=[{group_id=g, topics=[{topic_name=foo, topic_id=foo, partitions=[{partition_index=-1, start_offset=-1}, {start_offset=-1}]}]}]",
        "A partition that there cannot be is answered as one of an unknown topic; Apache Kafka fails on it.",
    ),
    Difference(
        "DescribeShareGroupOffsets of all topics, of some partitions, and in both versions",
        f"< {FAILED}",
        "< groups=[{group_id=g, topics=[{topic_name=foo, topic_id=foo}]}]",
        "A topic of which no partition is asked has none in the answer; Apache Kafka fails on it.",
    ),
    Difference(
        "AlterShareGroupOffsets of topics that the share group did not read, unknown ones, and unknown partitions",
        "* ShareGroupStatePartitionMetadata(): v0 {initializing_topics=[{topic_id=foo, topic_name=foo}], initialized_topics=[{topic_id=bar, topic_name=bar, partitions=[0]}, {topic_id=foo, topic_name=foo, partitions=[0, 1, 2]}]}",
        None,
        "Where no start offset is set, that no partition is being initialized is not written.",
    ),
)
WITHOUT_RECORDS = {
    "offsets of a consumer group are deleted: of a subscribed topic, of another one": (
        "A group without members is removed with its last offset, and not at the next check of expired offsets."
    ),
    "a topic grows while a member revokes": (
        "Apache Kafka learns of the topic some heartbeats later than it is asked, and writes what they change."
    ),
}
"""Situations of which the answers are compared, and why the records are others."""
LAST_ANSWER_ONLY = {
    "a second regular expression in a group is resolved by a later heartbeat, and goes": (
        "Here it is resolved at once."
    ),
}
"""Situations of which the last answer is compared, where it does not depend on time, and why."""


class Rule(NamedTuple):
    """In every transcript, what the pattern matches is `ours` (None: the line is left out)."""

    theirs: str
    ours: str | None
    why: str
    after: str = ""
    """What the request before the line matches."""


RULES: tuple[Rule, ...] = (
    Rule(
        r"OffsetCommit\((.*)\): v4 \{(.*), topic_id=\w+\}",
        r"OffsetCommit(\1): v3 {\2}",
        "Offsets are written in the version that all releases since 2.1 read; a topic's id is not looked at when loaded.",
    ),
    Rule(
        r"^[*+] GroupMetadata\(\): v3 \{protocol=null, leader=null, .*",
        None,
        "A classic group whose first rebalance is not completed is not written: there is nothing in it to be loaded.",
    ),
    Rule(
        r"(group_state=PreparingRebalance.*), member_assignment=v\d\{(?:assigned_partitions=\[(?:\{[^}]*\}(?:, )?)*\])?\}",
        r"\1",
        "Assignments of a group that rebalances are not described: they are about to change, as in 2.7 and 3.9.",
    ),
    Rule(
        r"error_code=NON_EMPTY_GROUP\}",
        'error_code=NON_EMPTY_GROUP, error_message="the group has members: stop them, or wait until their sessions '
        'expire"}',
        "A deletion that is refused says what to do.",
        after=r"DeleteGroups v3",
    ),
    Rule(
        r"results=\[\{group_id=g, error_code=GROUP_ID_NOT_FOUND\}\]",
        'results=[{group_id=g, error_code=GROUP_ID_NOT_FOUND, error_message="there is no such group"}]',
        "A deletion that is refused says why.",
    ),
    Rule(
        r"groups=\[\{group_id=g, error_code=UNKNOWN_SERVER_ERROR\}\]",
        "groups=[{group_id=g, error_code=UNKNOWN_MEMBER_ID}]",
        "A read of offsets with an epoch and without a member id is of no member; Apache Kafka fails on it.",
    ),
)


def as_ours(sentence: str, lines: Sequence[str], differences: Sequence[Difference] = DIFFERENCES) -> list[str]:
    """What is expected of Sordini where this is what Apache Kafka did."""
    ours = {each.theirs: each.ours for each in differences if fnmatchcase(sentence, each.sentence)}
    found = [expected for expected in (ours.get(line, line) for line in lines) if expected is not None]
    for rule in RULES:
        found = _as_ruled(rule, found)
    return found


def _as_ruled(rule: Rule, lines: list[str]) -> list[str]:
    found, request = [], ""
    for line in lines:
        request = line if line.startswith(">") else request
        if not re.search(rule.after, request):
            found.append(line)
        elif rule.ours is not None:
            found.append(re.sub(rule.theirs, rule.ours, line))
        elif not re.search(rule.theirs, line):
            found.append(line)
    return found


def compared_part(sentence: str, lines: list[str]) -> list[str]:
    """The lines that are compared."""
    if sentence in WITHOUT_RECORDS:
        return [line for line in lines if not line.startswith(("* ", "+ "))]
    if sentence in LAST_ANSWER_ONLY:
        return [line for line in lines if line.startswith("<")][-1:]
    return lines
