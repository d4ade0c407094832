"""Administrative changes in the audit log: which requests, what of them, with what outcome, and no secret."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.network.principal import Principal
from sordini.broker.security.audit.change_events import (
    ROWS_PER_LINE,
    ChangeEvents,
    administrative_apis,
    may_show_value,
    operations_of,
)
from sordini.broker.security.audit.shown_messages import ITEMS_MAX
from sordini.broker.security.rules.simple_rules import on_cluster
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages import (
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    create_acls,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    metadata,
    write_txn_markers,
)
from sordini.replication.metadata_store.acl_model import AclOperation
from tests.support.audit_lines import AuditLines
from tests.support.routes import routes
from tests.support.unit_broker import UnitBroker, a_broker
from tests.unit.broker.security.test_rules import SETTINGS, Kind, Op, allow, answered

TOPIC, BROKER = 2, 4
ADMINISTRATIVE = {
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.ELECT_LEADERS,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
    ApiKey.WRITE_TXN_MARKERS,
}


@pytest.fixture
def lines() -> AuditLines:
    return AuditLines()


def changes(lines: AuditLines) -> list[dict[str, Any]]:
    return lines.of("change")


def topic(name: str, **given: Any) -> create_topics.CreatableTopic:
    return create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1, **given)


def edits(**values: str) -> list[Any]:
    return [
        incremental_alter_configs.AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in values.items()
    ]


async def alter(broker: UnitBroker, kind: int, name: str, rows: list[Any]) -> Any:
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    return await answered(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)


def test_the_apis_that_change_something_follow_from_their_rules() -> None:
    """A new one is audited by its rule; here it is only noticed."""
    assert administrative_apis(routes()) == ADMINISTRATIVE


def test_a_new_rule_is_audited_by_the_operation_that_it_asks_for() -> None:
    needs = {ApiKey.HEARTBEAT: AclOperation.ALTER, ApiKey.FETCH: AclOperation.DESCRIBE}
    changed = [route._replace(rule=on_cluster(needs[route.key])) for route in routes() if route.key in needs]
    assert administrative_apis(changed) == {ApiKey.HEARTBEAT, ApiKey.WRITE_TXN_MARKERS}
    assert operations_of(None) == frozenset()


async def test_a_change_says_who_what_and_how_it_ended(lines: AuditLines) -> None:
    async with a_broker(audit=lines) as broker:
        request = create_topics.CreateTopicsRequest(topics=[topic("a"), topic("b/ad")], validate_only=True)
        answer = await answered(broker, ApiKey.CREATE_TOPICS, 5, request)
        codes = [row.error_code for row in answer.topics]
        [line] = changes(lines)
        assert list(line) == [
            *("time", "event", "broker", "principal", "address", "listener", "client_id", "api"),
            *("outcome", "failures", "part", "request", "response"),
        ]
        assert (line["api"], line["principal"], line["client_id"]) == ("CREATE_TOPICS", "User:ANONYMOUS", "test")
        assert line["request"]["validate_only"] is True
        assert [row["name"] for row in line["request"]["topics"]] == ["a", "b/ad"]
        assert [row["name"] for row in line["response"]["topics"]] == ["a", "b/ad"]
        assert (line["failures"], line["outcome"]) == (
            sum(map(bool, codes)),
            line["response"]["topics"][-1]["error_code"],
        )
        assert line["outcome"] != "NONE"


async def test_a_request_that_only_reads_is_no_change(lines: AuditLines) -> None:
    async with a_broker(audit=lines) as broker:
        await answered(broker, ApiKey.METADATA, 9, metadata.MetadataRequest(topics=None))
        assert lines.text == ""


async def test_a_change_that_is_denied_in_part_shows_the_whole_request_and_both_outcomes(lines: AuditLines) -> None:
    async with a_broker(SETTINGS, audit=lines) as broker:
        broker.peer.principal = Principal("User", "alice")
        allow(broker, Kind.TOPIC, "mine", Op.CREATE)
        request = create_topics.CreateTopicsRequest(topics=[topic("mine"), topic("other")], validate_only=True)
        await answered(broker, ApiKey.CREATE_TOPICS, 5, request)
        [line] = changes(lines)
        assert [row["name"] for row in line["request"]["topics"]] == ["mine", "other"]
        outcomes = {row["name"]: row["error_code"] for row in line["response"]["topics"]}
        assert outcomes["other"] == "TOPIC_AUTHORIZATION_FAILED"
        assert outcomes.keys() == {"mine", "other"}
        assert "configs" not in line["response"]["topics"][0]


async def test_a_change_that_is_refused_as_a_whole_is_written(lines: AuditLines) -> None:
    async with a_broker(SETTINGS, audit=lines) as broker:
        broker.peer.principal = Principal("User", "alice")
        await answered(broker, ApiKey.ELECT_LEADERS, 2, elect_leaders.ElectLeadersRequest(topic_partitions=None))
        [line] = changes(lines)
        assert (line["api"], line["outcome"]) == ("ELECT_LEADERS", "CLUSTER_AUTHORIZATION_FAILED")
        assert line["request"]["election_type"] == "PREFERRED"


async def test_entries_of_access_control_are_written_in_words(lines: AuditLines) -> None:
    async with a_broker(SETTINGS, audit=lines) as broker:
        broker.peer.principal = Principal("User", "root")
        creation = create_acls.AclCreation(
            resource_type=2,
            resource_name="orders",
            resource_pattern_type=3,
            principal="User:bob",
            host="*",
            operation=3,
            permission_type=3,
        )
        await answered(broker, ApiKey.CREATE_ACLS, 3, create_acls.CreateAclsRequest(creations=[creation]))
        chosen = delete_acls.DeleteAclsFilter(
            resource_type_filter=2,
            resource_name_filter="orders",
            pattern_type_filter=3,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        await answered(broker, ApiKey.DELETE_ACLS, 3, delete_acls.DeleteAclsRequest(filters=[chosen]))
        created, deleted = changes(lines)
        [row] = created["request"]["creations"]
        words = ("resource_type", "resource_name", "resource_pattern_type", "principal", "operation", "permission_type")
        assert [row[word] for word in words] == ["TOPIC", "orders", "LITERAL", "User:bob", "READ", "ALLOW"]
        [removed] = deleted["response"]["filter_results"][0]["matching_acls"]
        assert (removed["principal"], removed["operation"]) == ("User:bob", "READ")
        assert (created["outcome"], deleted["outcome"]) == ("NONE", "NONE")


async def test_credentials_are_written_without_salt_and_password(lines: AuditLines) -> None:
    async with a_broker(audit=lines) as broker:
        request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            deletions=[alter_user_scram_credentials.ScramCredentialDeletion(name="bob", mechanism=1)],
            upsertions=[
                alter_user_scram_credentials.ScramCredentialUpsertion(
                    name="carol", mechanism=2, iterations=4096, salt=b"battery", salted_password=b"horse" * 8
                )
            ],
        )
        await answered(broker, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
        [line] = changes(lines)
        assert line["request"]["deletions"] == [{"name": "bob", "mechanism": "SCRAM_SHA_256"}]
        [row] = line["request"]["upsertions"]
        assert (row["name"], row["salt"], row["salted_password"]) == ("carol", "(7 bytes)", "(40 bytes)")
        assert {row["user"] for row in line["response"]["results"]} == {"bob", "carol"}
        assert "horse" not in lines.text


async def test_a_setting_that_is_made_is_shown_unless_it_is_a_password_or_unknown(lines: AuditLines) -> None:
    async with a_broker(audit=lines) as broker:
        answer = await alter(broker, BROKER, "", edits(message_max_bytes="4242", somebodys_entry="horse"))
        assert [row.error_code for row in answer.responses] == [0]
        [line] = changes(lines)
        [resource] = line["request"]["resources"]
        assert resource["resource_type"] == "BROKER"
        assert resource["configs"] == [
            {"name": "message.max.bytes", "config_operation": "SET", "value": "4242"},
            {"name": "somebodys.entry", "config_operation": "SET", "value": "(hidden)"},
        ]
        assert "horse" not in lines.text


async def test_a_value_that_is_refused_is_not_shown_whatever_its_key(lines: AuditLines) -> None:
    async with a_broker(audit=lines) as broker:
        await broker.lead("orders")
        await alter(broker, TOPIC, "orders", edits(retention_ms="horse"))
        old = alter_configs.AlterConfigsResource(
            resource_type=BROKER,
            resource_name="",
            configs=[alter_configs.AlterableConfig(name="message.max.bytes", value="horse")],
        )
        await answered(broker, ApiKey.ALTER_CONFIGS, 1, alter_configs.AlterConfigsRequest(resources=[old]))
        assert [line["outcome"] for line in changes(lines)] != ["NONE", "NONE"]
        assert all(line["request"]["resources"][0]["configs"][0]["value"] == "(hidden)" for line in changes(lines))
        assert "horse" not in lines.text


def test_values_are_shown_of_known_keys_that_are_no_passwords() -> None:
    shown = (
        "retention.ms",
        "message.max.bytes",
        "log.cleaner.threads",
        "listener.name.x.ssl.keystore.location",
        "producer_byte_rate",
    )
    hidden = ("sasl.jaas.config", "listener.name.x.plain.sasl.jaas.config", "ssl.key.password", "nobodys.key", "")
    assert [key for key in (*shown, *hidden) if may_show_value(key)] == list(shown)


async def test_a_long_request_has_several_lines_and_every_row_is_in_one(lines: AuditLines) -> None:
    async with a_broker(audit=lines) as broker:
        names = [f"g{number}" for number in range(10 * ROWS_PER_LINE + 3)]
        await answered(broker, ApiKey.DELETE_GROUPS, 2, delete_groups.DeleteGroupsRequest(groups_names=names))
        await broker.settled()
        found = changes(lines)
        assert [line["part"] for line in found] == list(range(1, 12))
        assert [name for line in found for name in line["request"]["groups_names"]] == names
        assert [row["group_id"] for line in found for row in line["response"]["results"]] == names
        assert len({(line["outcome"], line["failures"]) for line in found}) == 1


async def test_a_row_with_many_elements_is_divided(lines: AuditLines) -> None:
    async with a_broker(audit=lines) as broker:
        many = 2 * ITEMS_MAX + 1
        row = alter_partition_reassignments.ReassignablePartition
        request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            topics=[
                alter_partition_reassignments.ReassignableTopic(
                    name="orders", partitions=[row(partition_index=index, replicas=[1]) for index in range(many)]
                )
            ]
        )
        await answered(broker, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, request)
        await broker.settled()
        pieces = [piece for line in changes(lines) for piece in line["request"]["topics"]]
        assert [piece["name"] for piece in pieces] == ["orders"] * 3
        assert [one["partition_index"] for piece in pieces for one in piece["partitions"]] == list(range(many))


async def test_a_request_whose_connection_closes_meanwhile_is_written_as_abandoned(lines: AuditLines) -> None:
    async with a_broker(audit=lines) as broker:
        await broker.lead("orders")
        rows = [delete_records.DeleteRecordsPartition(partition_index=0, offset=0) for _ in range(9)]
        request = delete_records.DeleteRecordsRequest(
            topics=[delete_records.DeleteRecordsTopic(name="orders", partitions=rows)] * 400
        )
        pending = broker.serve(ApiKey.DELETE_RECORDS, 2, request)
        assert isinstance(pending, DelayedResponse)
        slices = broker.parts.dispatcher.slices
        while slices.slices < 8:
            slices.run_slice()
        assert not pending.is_answered
        assert lines.text == ""
        pending.abandon()
        while slices.waiting:
            slices.run_slice()
        assert {line["outcome"] for line in changes(lines)} == {"ABANDONED"}
        assert changes(lines)[0]["request"]["topics"][0]["name"] == "orders"
        assert sum(len(line["request"]["topics"]) for line in changes(lines)) == 400


async def test_an_operator_that_aborts_a_transaction_is_written_and_a_coordinator_is_not(lines: AuditLines) -> None:
    async with a_broker(audit=lines) as broker:
        await broker.lead("orders")
        marker = write_txn_markers.WritableTxnMarker(
            producer_id=7,
            topics=[write_txn_markers.WritableTxnMarkerTopic(name="orders", partition_indexes=[0])],
        )
        for client_id in ("broker-2-transactions", "broker-2-txn-marker-sender", "sordini", None):
            request = write_txn_markers.WriteTxnMarkersRequest(markers=[marker])
            broker.serve(ApiKey.WRITE_TXN_MARKERS, 1, request, client_id=client_id)
            await broker.settled()
        assert [line["client_id"] for line in changes(lines)] == ["sordini", None]
        assert changes(lines)[0]["request"]["markers"][0]["producer_id"] == 7


async def test_a_topic_that_is_deleted_by_its_id_is_shown_by_it(lines: AuditLines) -> None:
    async with a_broker(audit=lines) as broker:
        state = delete_topics.DeleteTopicState(topic_id=b"0123456789abcdef")
        await answered(broker, ApiKey.DELETE_TOPICS, 6, delete_topics.DeleteTopicsRequest(topics=[state]))
        [line] = changes(lines)
        assert line["request"]["topics"] == [{"topic_id": "MDEyMzQ1Njc4OWFiY2RlZg"}]


async def test_without_an_audit_log_no_handler_is_wrapped() -> None:
    async with a_broker() as broker:
        request = create_topics.CreateTopicsRequest(topics=[topic("a")], timeout_ms=0)
        await answered(broker, ApiKey.CREATE_TOPICS, 5, request)
        api = next(one for one in broker.parts.dispatcher.versioned_apis if one.api.key == ApiKey.CREATE_TOPICS)
        handle = api.route.handle
        assert not isinstance(handle, partial) or not isinstance(getattr(handle.func, "__self__", None), ChangeEvents)
