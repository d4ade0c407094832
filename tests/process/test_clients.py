"""`sordini clients` over all brokers of a cluster, and where none takes metrics of clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from sordini.protocol.messages.push_telemetry import PushTelemetryRequest
from sordini.protocol.types import topic_id_text
from tests.outside.processes import DevProcess
from tests.process.test_cli import Run, run, run_here
from tests.support.polling import eventually
from tests.support.telemetry_pushes import LAG_MAX, an_id, gauges
from tests.support.wire_client import Client

__all__ = ["run"]  # The fixture.


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    options = ("--brokers", "2", "--override", "sordini.client.telemetry.enable=true")
    with DevProcess(tmp_path_factory.mktemp("clients"), *options) as process:
        run_here(process.bootstrap, "configs", "set", "--client-metrics", "all", "metrics=*", "interval.ms=100")
        yield process


def push(port: int, instance_id: bytes, lag: float) -> Any:
    """Ask a broker what to push, and push it: what it was asked and answered."""
    with Client("127.0.0.1", port) as client:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
        given = client.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, request, "billing")
        if given.error_code or given.requested_metrics != ["*"]:
            return None  # It has not heard of the subscription yet.
        pushed = PushTelemetryRequest(
            client_instance_id=instance_id, subscription_id=given.subscription_id, metrics=gauges({LAG_MAX: lag})
        )
        return given, client.ask(ApiKey.PUSH_TELEMETRY, 0, pushed, "billing").error_code


def test_a_client_that_went_to_another_broker_is_listed_once_with_what_it_pushed_last(cluster: DevProcess) -> None:
    instance_id, text = an_id(7), topic_id_text(an_id(7))
    ids = set()
    for lag, port in enumerate(cluster.ports):
        given, code = eventually(lambda at=port, of=lag: push(at, instance_id, float(of)), "a subscription")  # type: ignore[misc]
        ids.add(given.subscription_id)
        assert code == 0
    assert len(ids) == 1, "every broker gives the same subscription the same id"
    (row,) = json.loads(run_here(cluster.bootstrap, "clients", "list", "--json").stdout)
    assert (row["client_instance_id"], row["client_id"], row["lag_max"]) == (text, "billing", 1.0)
    shown = run_here(cluster.bootstrap, "clients", "describe", text).stdout
    assert f"client {text} (billing)" in shown
    assert LAG_MAX in shown
    assert (
        "no broker knows the client"
        in run_here(cluster.bootstrap, "clients", "describe", topic_id_text(an_id(8)), code=1).stderr
    )
    assert "is no id" in run_here(cluster.bootstrap, "clients", "describe", "me", code=1).stderr


def test_without_telemetry_the_key_that_turns_it_on_is_named(run: Run) -> None:
    assert "sordini.client.telemetry.enable=true" in run("clients", "list", code=1).stderr
    assert "sordini.client.telemetry.enable=true" in run("clients", "describe", topic_id_text(an_id(8)), code=1).stderr
