"""The file of a mirror: defaults, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordini.admin.failure import Failure
from sordini.cli.commands.mirror.mirror_file import read_mirror_file
from sordini.client.addresses import Address
from sordini.mirror.naming import Naming
from sordini.mirror.plan import Delivery, Plan, Start, SyncsIn

SMALLEST = """\
name: sites
target:
  alias: central
  bootstrap: 127.0.0.1:9092
sources:
  east:
    bootstrap: 127.0.0.1:9192
"""


def read(tmp_path: Path, text: str, **environment: str) -> Plan:
    file = tmp_path / "mirror.yaml"
    file.write_text(text)
    return read_mirror_file(file, environment)


def test_the_smallest_file_copies_all_topics_exactly_once_with_prefixes(tmp_path: Path) -> None:
    plan = read(tmp_path, SMALLEST)
    (source,) = plan.sources
    assert (plan.naming, plan.separator, plan.delivery) == (Naming.PREFIX, ".", Delivery.EXACTLY_ONCE)
    assert (plan.commit_s, plan.refresh_s, plan.groups_s, plan.heartbeat_s) == (0.5, 30.0, 10.0, 1.0)
    assert (plan.replication_factor, plan.sync_group_offsets, plan.syncs_in) == (-1, False, SyncsIn.TARGET)
    assert source.access.bootstrap == (Address("127.0.0.1", 9192),)
    assert source.start is Start.EARLIEST
    assert source.topics.has("anything")
    assert source.groups.has("billing")
    assert not source.groups.has("console-consumer-7")


def test_every_setting_is_read(tmp_path: Path) -> None:
    (tmp_path / "east.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";\n'
    )
    plan = read(
        tmp_path,
        """\
name: sites
naming: merge
separator: "_"
delivery: at_least_once
commit_interval: 2 seconds
offset_syncs: source
metrics: 127.0.0.1:9404
target: {alias: central, bootstrap: "${TARGET}"}
topics: {refresh_interval: 1 minute, sync_configs: false, exclude_configs: ["retention.*"], replication_factor: 2}
groups: {interval: 3 seconds, sync_offsets: true}
heartbeats: {enabled: false}
sources:
  east:
    bootstrap: "a:1,b:2"
    command_config: east.properties
    topics: [orders, "click.*"]
    exclude_topics: "clicks-test"
    groups: bill.*
    exclude_groups: []
    start: latest
""",
        TARGET="central:9092",
    )
    (source,) = plan.sources
    assert (plan.naming, plan.separator, plan.delivery) == (Naming.MERGE, "_", Delivery.AT_LEAST_ONCE)
    assert (plan.commit_s, plan.refresh_s, plan.groups_s, plan.heartbeat_s) == (2.0, 60.0, 3.0, 0.0)
    assert (plan.replication_factor, plan.sync_group_offsets, plan.sync_configs) == (2, True, False)
    assert (plan.syncs_in, plan.metrics) == (SyncsIn.SOURCE, Address("127.0.0.1", 9404))
    assert plan.target.bootstrap == (Address("central", 9092),)
    assert [pattern.pattern for pattern in plan.excluded_configs] == ["retention.*"]
    assert source.access.credentials is not None
    assert source.access.credentials().username == "a"
    assert source.topics.has("clicks")
    assert not source.topics.has("clicks-test")
    assert source.start is Start.LATEST


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ("name: sites", "", ": name is missing"),
        ("name: sites", "name: a b", ":1: name is 'a b': up to 80 letters, digits, - and _ are allowed"),
        ("name: sites", "naming: both\nname: s", ":1: naming is 'both'; it can be prefix, merge"),
        ("name: sites", "nane: s\nname: s", ":1: nane is not known here (did you mean name?)"),
        ("name: sites", "name: s\nname: t", ":2: 'name' is set twice"),
        ("name: sites", "name: [s", ":2 is not YAML"),
        ("name: sites", "name: s\nseparator: '/'", ":2: separator is '/': '.', '_' and '-' are allowed"),
        ("name: sites", "name: s\ncommit_interval: 5", ":2: commit_interval is 5, which is not a text"),
        ("name: sites", "name: s\ncommit_interval: soon", ":2: commit_interval is 'soon', not a length of time"),
        ("name: sites", "name: s\nmetrics: here", ":2: metrics is 'here': it is not HOST:PORT"),
        ("name: sites", "name: s\nmetrics: here:99999", ":2: metrics is 'here:99999': it is not HOST:PORT"),
        ("name: sites", "name: s\ntopics: {replication_factor: 0}", ": topics.replication_factor is 0, not a whole"),
        ("name: sites", "name: s\ngroups: {sync: true}", ":2: groups.sync is not known here"),
        ("alias: central", "alias: my-c", ":4: target.alias is 'my-c', which has the separator '-' in it"),
        ("  east:", "  my-east:", ": sources.my-east has the separator '-' in it"),
        ("alias: central", "alias: east", ": sources.east has the alias of the target: east"),
        ("127.0.0.1:9092", "127.0.0.1:x", ":4: target.bootstrap is '127.0.0.1:x': '127.0.0.1:x' is not HOST:PORT"),
        ("bootstrap: 127.0.0.1:9192", "topics: a", ": sources.east.bootstrap is missing"),
        ("  east:", "  a.b:", ": sources.a.b is 'a.b': up to 80 letters"),
        ("sources:\n  east:\n    bootstrap: 127.0.0.1:9192\n", "", ": sources is missing: one section for each"),
        ("9192", "9192\n    topics: ['a(']", ":8: sources.east.topics has 'a(', which is no regular expression"),
        ("9192", "9192\n    start: now", ":8: sources.east.start is 'now'; it can be earliest, latest"),
        (
            "9192",
            "9192\n    command_config: no.such",
            ":8: sources.east.command_config is 'no.such': it cannot be read",
        ),
        ("9192", "${PORT}", ":7: sources.east.bootstrap uses $PORT, which is not set"),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_what_is_allowed(
    tmp_path: Path, old: str, new: str, reported: str
) -> None:
    text = SMALLEST if "my-" not in new else f"separator: '-'\n{SMALLEST}"
    assert old in text
    with pytest.raises(Failure) as caught:
        read(tmp_path, text.replace(old, new))
    said = str(caught.value)
    assert said.startswith(str(tmp_path / "mirror.yaml"))
    assert reported in said


def test_a_mistake_in_a_client_s_properties_is_reported_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "east.properties").write_text("security.protocol=SASL\nsasl.jaas.config=secret\n")
    with pytest.raises(Failure, match=r"command_config is 'east.properties': security.protocol='SASL' is not valid"):
        read(tmp_path, SMALLEST + "    command_config: east.properties\n")


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"none\.yaml cannot be read: No such file"):
        read_mirror_file(tmp_path / "none.yaml", {})
