"""Whether a broker starts that is to take metrics of clients, where what reads them is not installed."""

from __future__ import annotations

import sys

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.wiring.startup import StartRefused, refuse_unreadable_telemetry
from tests.support.telemetry_pushes import ON

OFF = {"sordini.client.telemetry.enable": "false"}


def test_a_broker_that_cannot_read_pushes_does_not_start_with_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1", None)
    with pytest.raises(StartRefused, match="opentelemetry-proto"):
        refuse_unreadable_telemetry(build_config(ON)[0])
    refuse_unreadable_telemetry(build_config(OFF)[0])


def test_a_broker_that_can_read_pushes_starts_with_telemetry() -> None:
    refuse_unreadable_telemetry(build_config(ON)[0])
