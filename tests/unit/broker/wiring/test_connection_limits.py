"""Limits of connections reach the network: of which listener, at the start and at each change."""

from __future__ import annotations

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.network.server import SocketServer
from sordini.broker.wiring.client_quotas import client_quotas, throttle
from sordini.broker.wiring.listeners import bind
from tests.support.fake_ports import ListLog, StillClock, UnconnectedNetwork, WarmCache
from tests.support.socket_bench import ScriptedService
from tests.support.unit_broker import a_broker

ONE = {"listeners": "PLAINTEXT://127.0.0.1:1"}
TWO = {
    "listeners": "CLIENTS://127.0.0.1:1,BROKERS://127.0.0.1:2",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}
RATE = "max.connection.creation.rate"


def a_server() -> SocketServer:
    return SocketServer(UnconnectedNetwork(), ScriptedService(), StillClock(), WarmCache(), ListLog())


async def test_the_listener_between_brokers_is_protected_where_there_are_others() -> None:
    async with a_broker() as broker:
        for entries, protected in ((ONE, {"PLAINTEXT": False}), (TWO, {"CLIENTS": False, "BROKERS": True})):
            server = a_server()
            bind(build_config(entries)[0], server, None, broker.parts.security)
            assert {name: acceptor.listener.is_protected for name, acceptor in server.acceptors.items()} == protected


def test_the_rates_of_listeners_are_in_force_at_the_start_and_after_a_change() -> None:
    dynamic = DynamicConfig(build_config(TWO | {RATE: "100", f"listener.name.clients.{RATE}": "7"})[0])
    server, log = a_server(), ListLog()
    service = ScriptedService()
    throttle(server, client_quotas(dynamic.config, log), service, server.serve_by, dynamic, StillClock())
    rates = server.quotas.rates
    assert rates is not None
    assert (rates.per_second_max, rates.per_second_by_listener) == (100, {"CLIENTS": 7, "BROKERS": 100})
    dynamic.set_layer(ConfigSource.DYNAMIC_BROKER, {f"listener.name.brokers.{RATE}": "9", RATE: "50"})
    assert (rates.per_second_max, rates.per_second_by_listener) == (50, {"CLIENTS": 7, "BROKERS": 9})
