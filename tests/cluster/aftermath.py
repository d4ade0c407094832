"""What a cluster leaves behind: equal replicas, quiet logs, files without a complaint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.cluster import Cluster, Partition
from tests.cluster.replicas import differences
from tests.outside.java import java_tool

_COMPACTED = ("__consumer_offsets", "__transaction_state")
_SAMPLE = 8
_COMPLAINTS = re.compile(r"ismatch|isvalid: false|corrupt|Could not|exception|error|Found |out of order", re.IGNORECASE)

_HEADER_NAMES = re.compile(r"headerKeys: \[.*\]")
"""Those of dead letters have a word that a complaint may have."""


def judge(cluster: Cluster) -> None:
    """Stop all brokers and look at what they wrote. Fails the test that ran last when anything is not as it must be."""
    partitions = list(_partitions(cluster))
    cluster.wait_for_full_isr(partitions)
    states = {one: cluster.isr(one) for one in partitions}
    replicas = {(topic, number): cluster.tree.assignment(topic)[number] for topic, number in partitions}
    errors = cluster.errors()
    assert not errors, "\n".join(errors)
    cluster.stop()
    problems: list[str] = []
    for topic, number in partitions:
        homes = {broker: _home(cluster, broker, topic, number) for broker in replicas[topic, number]}
        found, _ = differences(topic, number, homes, states[topic, number])
        problems += found
    assert not problems, "\n".join(problems)
    if sample := [path for path in _segments(cluster) if path.stat().st_size][:_SAMPLE]:
        _dump(sample)


def _partitions(cluster: Cluster) -> Iterator[Partition]:
    """Those whose bytes can be compared: the cleaner goes through the others when each broker thinks fit."""
    for topic in cluster.tree.children("/brokers/topics"):
        if topic not in _COMPACTED:
            yield from ((topic, number) for number in cluster.tree.assignment(topic))


def _home(cluster: Cluster, broker: int, topic: str, number: int) -> Path:
    """The log directory of a broker that holds the partition."""
    found = [path.parent for path in cluster.brokers[broker].directory.glob(f"data*/{topic}-{number}")]
    assert len(found) == 1, f"broker {broker} has {topic}-{number} in {found}"
    return found[0]


def _segments(cluster: Cluster) -> list[Path]:
    """Those of ours first."""
    ours_first = sorted(cluster.brokers, key=lambda broker: not cluster.is_ours(broker))
    return [path for one in ours_first for path in sorted(cluster.brokers[one].directory.glob("data*/*/*.log"))]


def _dump(paths: list[Path]) -> None:
    files = ",".join(map(str, paths))
    done = java_tool("kafka.tools.DumpLogSegments", "--files", files, "--deep-iteration")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Dumping ") == len(paths)
    complaints = [line for line in done.stdout.splitlines() if _COMPLAINTS.search(_HEADER_NAMES.sub("", line))]
    assert not complaints, "\n".join(complaints)
