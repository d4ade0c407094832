"""DescribeClientInstances, for `sordini clients`: page by page, with key figures or with all."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from sordini.broker.metrics.telemetry.client_instances_handler import INSTANCES_MAX
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.describe_client_instances import DescribeClientInstancesRequest
from sordini.protocol.primitives import ZERO_UUID
from tests.support.telemetry_pushes import LAG_MAX, ON, an_id, ask, gauges, name_resource, push_metrics
from tests.support.unit_broker import UnitBroker, a_broker


def described(broker: UnitBroker, **fields: Any) -> Any:
    answer = broker.ask(ApiKey.DESCRIBE_CLIENT_INSTANCES, 1, DescribeClientInstancesRequest(**fields))
    assert answer.error_code == 0
    return answer


async def test_a_broker_without_telemetry_says_so() -> None:
    async with a_broker() as broker:
        assert described(broker).is_enabled is False


async def test_a_client_is_described_with_what_it_said_of_itself_and_its_figures() -> None:
    async with a_broker(ON) as broker:
        broker.parts.client_metrics.changed("client-metrics/all", {"metrics": "*", "interval.ms": "5000"})
        broker.peer.software_name, broker.peer.software_version = "librdkafka", "2.16.1"
        given = ask(broker, client_id="billing")
        broker.clock.ms += 20
        assert await push_metrics(broker, given, gauges({LAG_MAX: 3.0, "other": 1.0}, {"k": "v"})) == 0
        answer = described(broker)
        (row,) = answer.instances
        assert (answer.is_enabled, answer.has_more) == (True, False)
        assert (row.client_instance_id, row.client_id) == (given.client_instance_id, "billing")
        assert (row.software_name, row.software_version, row.address) == ("librdkafka", "2.16.1", "192.0.2.1")
        assert (row.pushes, row.metrics, row.push_interval_ms, row.last_error) == (1, ["*"], 5000, 0)
        assert (row.first_seen_at_ms, row.last_push_at_ms) == (broker.clock.now_ms() - 20, broker.clock.now_ms())
        assert [(figure.name, figure.value) for figure in row.figures] == [(LAG_MAX, 3.0)]
        (row,) = described(broker, client_instance_id=given.client_instance_id, has_all_figures=True).instances
        assert [(figure.name, figure.labels[0].key) for figure in row.figures] == [(LAG_MAX, "k"), ("other", "k")]


async def test_members_of_one_group_are_described_with_one_metric() -> None:
    async with a_broker(ON) as broker:
        broker.parts.client_metrics.changed("client-metrics/all", {"metrics": "*", "interval.ms": "5000"})
        for number, group in enumerate(("billing", "search", "billing"), 2):
            data = MetricsData()
            data.ParseFromString(gauges({LAG_MAX: 3.0, "lag": 1.0}))
            name_resource(data, {"group_id": group, "group_member_id": f"m-{number}"})
            given = ask(broker, an_id(number))
            assert await push_metrics(broker, given, data.SerializeToString()) == 0
        answer = described(broker, group_id="billing", metric="lag", instances_max=1)
        (row,) = answer.instances
        assert (row.group_id, row.group_member_id, answer.has_more) == ("billing", "m-2", True)
        assert [figure.name for figure in row.figures] == ["lag"]
        (row,) = described(broker, group_id="billing", after=row.client_instance_id).instances
        assert (row.group_member_id, [figure.name for figure in row.figures]) == ("m-4", [LAG_MAX])


async def test_clients_come_page_by_page_in_the_order_of_their_ids() -> None:
    async with a_broker(ON) as broker:
        for number in (5, 3, 4, 2):
            ask(broker, an_id(number))
        first = described(broker, instances_max=3)
        assert ([row.client_instance_id for row in first.instances], first.has_more) == (
            list(map(an_id, (2, 3, 4))),
            True,
        )
        last = described(broker, instances_max=3, after=an_id(4))
        assert ([row.client_instance_id for row in last.instances], last.has_more) == ([an_id(5)], False)
        assert described(broker, client_instance_id=an_id(9)).instances == []


async def test_a_page_is_bounded_whatever_is_asked_for() -> None:
    async with a_broker(ON) as broker:
        for number in range(2, INSTANCES_MAX + 3):
            ask(broker, an_id(number))
        answer = described(broker, instances_max=1_000_000, after=ZERO_UUID)
        assert (len(answer.instances), answer.has_more) == (INSTANCES_MAX, True)


async def test_a_client_that_was_silent_for_too_long_is_not_described() -> None:
    async with a_broker(ON) as broker:
        ask(broker)
        broker.clock.ms += 1_000_000
        assert described(broker).instances == []
