"""Lines of transcripts in one order, where the brokers are free: what is compared is what they say, and not its order.

- Records that are written one after the other: in which batch they are is a matter of time (Apache Kafka gathers for
  `group.coordinator.append.linger.ms`), and members are in the order of a hash table.
- How many partitions a member gets whose id is random: such ids are in another order each time.
- Members of a described group, and the topics that one subscribes to: sets.
"""

from __future__ import annotations

import re
from itertools import groupby

RECORD = re.compile(r"^[*+] ")
_MEMBER = "{member_id="
_COUNTED = re.compile(r"\[\d of them\]")
_NAMES = re.compile(r"subscribed_topic_names=\[([^]]*)\]")


def is_by_chance(lines: list[str]) -> bool:
    """Whether members with random ids share partitions: who gets how many is another each time."""
    return any(_COUNTED.search(line) for line in lines)


def unordered(lines: list[str]) -> list[str]:
    """The lines, with each run of records sorted, and the elements of sets."""
    found: list[str] = []
    for is_record, run in groupby(lines, lambda line: RECORD.match(line) is not None):
        if is_record:
            found += sorted(RECORD.sub("+ ", _sorted_sets(line)) for line in run)
        else:
            found += map(_sorted_sets, run)
    return found


def _sorted_sets(line: str) -> str:
    line = _COUNTED.sub("[some of them]", line)
    named = _NAMES.sub(lambda match: f"subscribed_topic_names=[{', '.join(sorted(match[1].split(', ')))}]", line)
    if line.startswith(">") or _MEMBER not in named:
        return named
    begin = named.index(_MEMBER)
    members, position = [], begin
    while named.startswith(_MEMBER, position):
        end = _end_of(named, position)
        members.append(named[position:end])
        position = end + len(", ") if named.startswith(", ", end) else end
    return named[:begin] + ", ".join(sorted(members)) + named[position:]


def _end_of(text: str, begin: int) -> int:
    """Behind the brace that closes the one at `begin`."""
    depth = 0
    for position in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if not depth:
            return position + 1
    return len(text)
