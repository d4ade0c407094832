"""What members and administrators can cost a running broker, and what of theirs is never written down."""

from __future__ import annotations

import re
import struct
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.headers import request_header
from sordini.protocol.messages import alter_configs, alter_share_group_offsets, incremental_alter_configs
from sordini.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sordini.protocol.messages.sasl import SaslAuthenticateRequest
from sordini.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from sordini.protocol.served_apis import APIS
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.polling import eventually
from tests.support.wire_client import PATIENCE_S, Client

Start = Callable[..., SordiniProcess]
Connect = Callable[..., Client]

MIB = 1024 * 1024
QUICK = {
    "broker.id": 1,
    "offsets.topic.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
}
FORGED = ["../../x", "x\n2030-01-01T00:00:00 [error    ] forged", '"} 1\nsordini_forged{a="', "\x1b[1Aforged"]
TOPIC, BROKER = 2, 4
SECRET = "correct-horse-battery-staple"


def resident_bytes(broker: SordiniProcess) -> int:
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{broker.pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 1024


def with_groups(client: Client) -> None:
    """Make the topic of offsets, and one of records."""
    assert client.create("orders", partitions=3) == [0]
    found = client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
    assert [row.error_code for row in found.coordinators] == [0]


def join(
    client: Client, group: str, metadata: bytes, *, session_timeout_ms: int = 30_000, client_id: str = "test"
) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    answer: JoinGroupResponse = client.ask(ApiKey.JOIN_GROUP, 3, request, client_id)
    return answer


def assign(client: Client, group: str, joined: JoinGroupResponse, assignment: bytes) -> int:
    """The leader's SyncGroup; its error code."""
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
    )
    code: int = client.ask(ApiKey.SYNC_GROUP, 3, request).error_code
    return code


def commit(client: Client, group: str, indexes: range, note: str = "") -> list[int]:
    """Error codes of a simple consumer's commit."""
    rows = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=note)
        for index in indexes
    ]
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="orders", partitions=rows)])
    answer = client.ask(ApiKey.OFFSET_COMMIT, 9, request)
    return [row.error_code for row in answer.topics[0].partitions]


def test_the_metadata_of_a_member_goes_with_its_session_and_is_not_written(
    start_sordini: Start, connect: Connect
) -> None:
    broker = start_sordini(QUICK)
    bomb, witness = connect(broker), connect(broker)
    with_groups(witness)
    assert commit(witness, "honest", range(3)) == [0, 0, 0]
    before = resident_bytes(broker)
    joined = join(bomb, "bomb", bytes(40 * MIB), session_timeout_ms=100)
    assert joined.error_code == 0
    # More than the topic of offsets takes is not written, and the group goes no further.
    assert assign(bomb, "bomb", joined, b"") in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_MEMBER_ID)
    broker.wait_until(lambda: resident_bytes(broker) - before < 16 * MIB, PATIENCE_S, "let go of the member's metadata")
    logs = broker.data_directory.glob("__consumer_offsets-*/*.log")
    assert sum(path.stat().st_size for path in logs) < MIB
    assert commit(witness, "honest", range(3)) == [0, 0, 0]


def test_a_commit_of_a_hundred_thousand_partitions_keeps_those_that_exist(
    start_sordini: Start, connect: Connect
) -> None:
    broker = start_sordini(QUICK)
    client = connect(broker)
    with_groups(client)
    before = resident_bytes(broker)
    answered = commit(client, "greedy", range(100_000), note="x" * 10)
    assert answered == [0] * 3 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 99_997
    assert resident_bytes(broker) - before < 64 * MIB


@pytest.mark.parametrize(("start", "lag"), [(-(2**63), 2**63 - 1), (2**63 - 1, -(2**63) + 1)])
def test_the_start_of_a_share_partition_may_be_any_number_and_is_described(
    start_sordini: Start, connect: Connect, start: int, lag: int
) -> None:
    client = connect(start_sordini({**QUICK, "share.coordinator.state.topic.num.partitions": 1}))
    with_groups(client)
    row = alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=start)
    altered = alter_share_group_offsets.AlterShareGroupOffsetsRequest(
        group_id="g",
        topics=[alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[row])],
    )

    def is_altered() -> bool | None:
        answer = client.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, altered)
        return (not answer.error_code and not answer.responses[0].partitions[0].error_code) or None

    eventually(is_altered, "a share coordinator")
    named = DescribeShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[0])
    group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[named])
    described = client.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, DescribeShareGroupOffsetsRequest(groups=[group]))
    (found,) = described.groups[0].topics[0].partitions
    assert (found.start_offset, found.lag, found.error_code) == (start, lag, 0)


def test_names_that_clients_choose_are_no_paths_and_forge_neither_lines_nor_metrics(
    start_sordini: Start, connect: Connect
) -> None:
    port = free_port()
    broker = start_sordini({**QUICK, "sordini.metrics.port": port})
    client = connect(broker)
    with_groups(client)
    around = sorted(path.name for path in broker.data_directory.iterdir())
    for name in FORGED:
        joined = join(client, name, b"", client_id=name)
        assert joined.error_code == 0
        assert joined.member_id.startswith(f"{name}-")
        assert assign(client, name, joined, b"") == 0
        assert commit(client, f"{name}-simple", range(1)) == [0]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        metrics = answer.read().decode()
    assert len([line for line in metrics.splitlines() if line.startswith("sordini_group_members{")]) == 2 * len(FORGED)
    assert "\nsordini_forged" not in metrics
    broker.kill()
    broker.start()
    with_these = connect(broker)
    assert commit(with_these, f"{FORGED[0]}-simple", range(1)) == [0]
    assert sorted(path.name for path in broker.data_directory.iterdir()) == around
    assert "\x1b" not in broker.log_path.read_text()
    assert not re.search(r"^\S* ?\[error *\] forged|^forged", broker.log_path.read_text(), re.MULTILINE)


def set_key(client: Client, kind: int, name: str, key: str, value: str) -> int:
    """IncrementalAlterConfigs of one key; the error code."""
    entry = incremental_alter_configs.AlterableConfig(name=key, config_operation=0, value=value)
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[entry])
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    code: int = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses[0].error_code
    return code


def replace_all(client: Client, kind: int, name: str, key: str, value: str) -> int:
    """AlterConfigs to one key; the error code."""
    entry = alter_configs.AlterableConfig(name=key, value=value)
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[entry])
    code: int = (
        client.ask(ApiKey.ALTER_CONFIGS, 2, alter_configs.AlterConfigsRequest(resources=[resource]))
        .responses[0]
        .error_code
    )
    return code


def test_no_secret_of_a_request_reaches_the_log_at_any_level(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini(QUICK)
    client = connect(broker)
    with_groups(client)
    logger = 8
    assert set_key(client, logger, "1", "root", "TRACE") == 0
    for change in (set_key, replace_all):
        assert change(client, BROKER, "1", "somebodys.unknown.entry", SECRET) == 0
        for key in ("ssl.keystore.password", "message.max.bytes", "log.dirs"):
            assert change(client, BROKER, "1", key, SECRET) == ErrorCode.INVALID_REQUEST
        assert change(client, BROKER, "1", "sasl.jaas.config", SECRET) == ErrorCode.INVALID_CONFIG
        assert change(client, TOPIC, "orders", "retention.ms", SECRET) == ErrorCode.INVALID_CONFIG
    login = client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=SECRET.encode()))
    assert login.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert commit(client, "g", range(1), note=SECRET) == [0]
    join(client, "g", SECRET.encode())
    # Delegation tokens, which are not served, and requests for SCRAM credentials that make no sense.
    for key in (38, 39, 40, 41, 50, 51):
        peer = connect(broker)
        frame = struct.pack(">hhih", key, 0, 1, -1) + SECRET.encode()
        peer.socket.sendall(struct.pack(">i", len(frame)) + frame)
        assert peer.is_closed()
    # And what breaks in the middle of such a request.
    peer = connect(broker)
    frame = request_header(APIS[ApiKey.ALTER_CONFIGS], 0, 1) + struct.pack(">ib", 2, BROKER) + SECRET.encode()
    peer.socket.sendall(struct.pack(">i", len(frame)) + frame)
    assert peer.is_closed()
    broker.stop()
    output = broker.output()
    assert "settings changed" in output
    assert "ALTER_CONFIGS" in output
    assert "stopped" in output
    assert "horse" not in output


@pytest.mark.parametrize(
    "value",
    [
        "${file:/etc/passwd:root}",
        pytest.param("${env:HOME}", marks=pytest.mark.slow),
        pytest.param("com.sun.security.auth.module.JndiLoginModule", marks=pytest.mark.slow),
    ],
)
def test_settings_over_the_wire_read_no_file_and_load_no_class(
    start_sordini: Start, connect: Connect, value: str
) -> None:
    broker = start_sordini(QUICK)
    client = connect(broker)
    with_groups(client)
    for key in ("retention.ms", "cleanup.policy", "compression.type"):
        assert set_key(client, TOPIC, "orders", key, value) == ErrorCode.INVALID_CONFIG
    for key in ("metric.reporters", "principal.builder.class", "listener.name.x.sasl.jaas.config", "log.retention.ms"):
        assert set_key(client, BROKER, "", key, value) == ErrorCode.INVALID_REQUEST
    assert set_key(client, BROKER, "", "nobodys.entry", value) == 0  # Somebody else's, perhaps: kept as it is.
    broker.stop()
    assert broker.start().is_running
    assert "root:" not in broker.output()
