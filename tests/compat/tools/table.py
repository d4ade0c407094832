"""Reads calls.txt: which tool is called how, and what is expected of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PATH = Path(__file__).with_name("calls.txt")
PACKAGE = "org.apache.kafka.tools"
MAIN_CLASSES = {
    "acls": "AclCommand",
    "broker-api-versions": "BrokerApiVersionsCommand",
    "client-metrics": "ClientMetricsCommand",
    "cluster": "ClusterTool",
    "configs": "ConfigCommand",
    "console-consumer": "consumer.ConsoleConsumer",
    "console-producer": "ConsoleProducer",
    "console-share-consumer": "consumer.ConsoleShareConsumer",
    "consumer-groups": "consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "ConsumerPerformance",
    "delegation-tokens": "DelegationTokenCommand",
    "delete-records": "DeleteRecordsCommand",
    "dump-log": "DumpLogSegments",
    "e2e-latency": "EndToEndLatency",
    "features": "FeatureCommand",
    "get-offsets": "GetOffsetShell",
    "groups": "GroupsCommand",
    "leader-election": "LeaderElectionCommand",
    "log-dirs": "LogDirsCommand",
    "metadata-quorum": "MetadataQuorumCommand",
    "producer-perf-test": "ProducerPerformance",
    "reassign-partitions": "reassign.ReassignPartitionsCommand",
    "share-consumer-perf-test": "ShareConsumerPerformance",
    "share-groups": "consumer.group.ShareGroupCommand",
    "streams-application-reset": "StreamsResetter",
    "streams-groups": "streams.StreamsGroupCommand",
    "topics": "TopicCommand",
    "transactions": "TransactionsCommand",
    "verifiable-consumer": "VerifiableConsumer",
    "verifiable-producer": "VerifiableProducer",
}
"""By the name of the script without `kafka-` and `.sh`. Not here: what runs without a cluster, for KRaft or Connect."""

REPEATABLE = {
    *("--describe", "--list", "--verify", "describe", "describe-producers", "find-hanging", "get-offsets", "list"),
    *("--delete-config", "e2e-latency"),
}
"""Words of calls that may be repeated: the broker that they ask may learn a moment later of what another one has done.

They change nothing, but for throttles that are cleared once a reassignment is completed, for the topic that `e2e-latency`
creates at the controller, whose partitions it asks of another broker at once, and for settings that are deleted: the tool
looks them up first, and ends where the broker does not know them yet.
"""


class Call(NamedTuple):
    """One call, and what it has to end with and to print."""

    line: str
    """As it is typed, with placeholders."""
    is_quick: bool
    """Whether every run has it."""
    standard_input: str
    status: int
    expected: tuple[str, ...]
    unexpected: tuple[str, ...]

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be repeated until the broker that it asks knows what the others know."""
        return not REPEATABLE.isdisjoint(self.line.split(" "))

    @property
    def main_class(self) -> str:
        return f"{PACKAGE}.{MAIN_CLASSES[self.line.split(' ')[0]]}"

    def arguments(self, places: dict[str, str]) -> list[str]:
        """The words after the tool's name, with the placeholders filled in."""
        words = self.line.split(" ")[1:]
        return [re.sub(r"\{(\w+)\}", lambda found: places[found[1]], word) for word in words]

    def complaints(self, status: int, printed: str) -> list[str]:
        """What is not as expected."""
        found = [] if status == self.status else [f"ended with {status}, not with {self.status}"]
        found += [f"did not print {one}" for one in self.expected if not re.search(one, printed, re.MULTILINE)]
        return found + [f"printed {one}" for one in self.unexpected if re.search(one, printed, re.MULTILINE)]


def read_calls(text: str) -> list[Call]:
    """The calls of a table, in order. Raises ValueError for a line that is none of a table's."""
    calls: list[Call] = []
    for line in text.splitlines():
        mark, rest = line[:1], line[2:]
        if not line or mark == "#":
            continue
        if mark in "$+":
            calls.append(Call(rest, mark == "$", "", -1, (), ()))
        elif mark == "<":
            calls[-1] = calls[-1]._replace(standard_input=rest.encode().decode("unicode_escape"))
        elif mark == "~":
            calls[-1] = calls[-1]._replace(expected=(*calls[-1].expected, rest))
        elif mark == "!":
            calls[-1] = calls[-1]._replace(unexpected=(*calls[-1].unexpected, rest))
        elif line.isdigit():
            calls[-1] = calls[-1]._replace(status=int(line))
        else:
            raise ValueError(f"{line!r} is no line of a table of calls")
    return calls
