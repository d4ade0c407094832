"""Denials in the audit log: what each request was denied, and nothing about questions that refuse nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sordini.broker.network.principal import Principal
from sordini.broker.security.audit.denials import NOTED_MAX
from sordini.broker.security.audit.line_limiter import BOUNDS
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages import create_topics, delete_groups, find_coordinator, list_groups, metadata, produce
from tests.support.audit_lines import AuditLines
from tests.support.unit_broker import UnitBroker, a_broker
from tests.unit.broker.security.test_rules import CASES, SETTINGS, Kind, Op, allow, answered, produce_of

ROWS = {"principal", "address", "listener", "client_id", "api", "operation", "resource_type", "resource"}


@asynccontextmanager
async def a_guarded_broker(lines: AuditLines) -> AsyncIterator[UnitBroker]:
    async with a_broker(SETTINGS, audit=lines) as broker:
        for topic in ("open", "shut", "__consumer_offsets", "__transaction_state"):
            await broker.lead(topic)
        broker.peer.principal = Principal("User", "alice")
        yield broker


def denied(lines: AuditLines) -> list[tuple[str, str, str, str]]:
    return [(line["api"], line["operation"], line["resource_type"], line["resource"]) for line in lines.of("denied")]


def noted(broker: UnitBroker) -> list[Any]:
    denials = broker.parts.security.access.denials
    assert denials is not None
    return denials.noted


@pytest.mark.parametrize(("key", "version", "request_", "codes"), CASES)
async def test_whatever_a_rule_refuses_is_a_line_of_that_request(
    key: ApiKey, version: int, request_: Any, codes: set[int]
) -> None:
    lines = AuditLines()
    async with a_guarded_broker(lines) as broker:
        await answered(broker, key, version, request_)
        assert lines.of("denied"), (key, codes)
        for line in lines.of("denied"):
            assert line.keys() >= ROWS
            assert (line["api"], line["principal"], line["client_id"]) == (key.name, "User:alice", "test")
            assert line["address"] == "192.0.2.1"
        assert noted(broker) == []


async def test_a_line_names_the_operation_and_the_resource() -> None:
    lines = AuditLines()
    async with a_guarded_broker(lines) as broker:
        allow(broker, Kind.TOPIC, "open", Op.WRITE)
        await answered(broker, ApiKey.PRODUCE, 9, produce_of("open", "shut"))
        assert denied(lines) == [("PRODUCE", "WRITE", "TOPIC", "shut")]


async def test_what_is_allowed_is_no_line() -> None:
    lines = AuditLines()
    async with a_guarded_broker(lines) as broker:
        allow(broker, Kind.TOPIC, "shut", Op.WRITE)
        await answered(broker, ApiKey.PRODUCE, 9, produce_of("shut"))
        assert lines.text == ""


async def test_lists_that_leave_out_what_may_not_be_seen_deny_nothing() -> None:
    lines = AuditLines()
    async with a_guarded_broker(lines) as broker:
        await answered(broker, ApiKey.LIST_GROUPS, 4, list_groups.ListGroupsRequest())
        everything = metadata.MetadataRequest(topics=None, include_topic_authorized_operations=True)
        answer = await answered(broker, ApiKey.METADATA, 9, everything)
        assert answer.topics == []
        assert (lines.text, noted(broker)) == ("", [])


async def test_settings_of_a_created_topic_that_are_not_shown_deny_nothing() -> None:
    lines = AuditLines()
    async with a_guarded_broker(lines) as broker:
        allow(broker, Kind.TOPIC, "new", Op.CREATE)
        topic = create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
        request = create_topics.CreateTopicsRequest(topics=[topic], validate_only=True)
        await answered(broker, ApiKey.CREATE_TOPICS, 5, request)
        assert (denied(lines), noted(broker)) == ([], [])


async def test_a_transactional_id_is_denied_only_to_a_producer_that_uses_it() -> None:
    lines = AuditLines()
    async with a_guarded_broker(lines) as broker:
        allow(broker, Kind.TOPIC, "shut", Op.WRITE)
        await answered(broker, ApiKey.PRODUCE, 9, produce_of("shut", transactional_id="mine"))
        assert denied(lines) == []


async def test_a_long_request_is_reported_step_by_step_and_mixes_with_no_other() -> None:
    lines = AuditLines()
    async with a_guarded_broker(lines) as broker:
        names = [f"g{number}" for number in range(30_000)]
        request = delete_groups.DeleteGroupsRequest(groups_names=names)
        pending: Any = broker.serve(ApiKey.DELETE_GROUPS, 2, request, client_id="long")
        while broker.parts.dispatcher.slices.waiting:
            broker.parts.dispatcher.slices.run_slice()
            short = find_coordinator.FindCoordinatorRequest(key="short", key_type=0)
            broker.ask(ApiKey.FIND_COORDINATOR, 3, short, client_id="short")
        assert pending.is_answered
        by_client: dict[str, set[str]] = {}
        for line in lines.of("denied"):
            by_client.setdefault(line["client_id"], set()).add(line["api"])
        assert by_client == {"long": {"DELETE_GROUPS"}, "short": {"FIND_COORDINATOR"}}
        denials = broker.parts.security.access.denials
        assert denials is not None
        assert denials.total > len(names)
        assert broker.parts.security.audit.lines_dropped == denials.total - len(lines.of("denied"))


async def test_more_denials_of_one_step_than_are_kept_are_counted() -> None:
    lines = AuditLines()
    async with a_guarded_broker(lines) as broker:
        topics = [produce.TopicProduceData(name=f"t{number}") for number in range(NOTED_MAX + 5)]
        await answered(broker, ApiKey.PRODUCE, 9, produce.ProduceRequest(acks=1, topic_data=topics))
        bound = BOUNDS["denied"].of_address  # type: ignore[index]
        assert len(lines.of("denied")) == bound
        assert broker.parts.security.audit.lines_dropped == NOTED_MAX + 5 - bound


async def test_denials_are_counted_without_an_audit_log() -> None:
    async with a_broker(SETTINGS) as broker:
        await broker.lead("shut")
        broker.peer.principal = Principal("User", "alice")
        await answered(broker, ApiKey.PRODUCE, 9, produce_of("shut"))
        denials = broker.parts.security.access.denials
        assert denials is not None
        assert (denials.total, denials.noted) == (1, [])
