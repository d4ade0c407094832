"""What is not simulated, and an application that dies of it or of itself, are findings at once, with the line."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Awaitable, Callable

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Producer
from kafka import KafkaProducer

from sordini.testing import Fault, FaultKind, Scenario, simulate


async def tls(bootstrap_servers: str) -> None:
    await asyncio.open_connection("broker-1", 9093, ssl=True)


async def tls_of_a_client(bootstrap_servers: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, security_protocol="SSL", ssl_context=create_ssl_context()
    )
    await producer.start()


async def server(bootstrap_servers: str) -> None:
    await asyncio.start_server(lambda *_: None, "127.0.0.1", 8080)


async def datagrams(bootstrap_servers: str) -> None:
    await asyncio.get_running_loop().create_datagram_endpoint(asyncio.DatagramProtocol)


async def unknown_host(bootstrap_servers: str) -> None:
    await asyncio.open_connection("database", 5432)


async def own_socket(bootstrap_servers: str) -> None:
    socket.create_connection(("127.0.0.1", 9092), timeout=1)


async def bound_socket(bootstrap_servers: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))


async def blocking_request(bootstrap_servers: str) -> None:
    urllib.request.urlopen("http://127.0.0.1:8080/")  # noqa: ASYNC210 - the mistake.


async def thread(bootstrap_servers: str) -> None:
    threading.Thread(target=print).start()


async def process(bootstrap_servers: str) -> None:
    subprocess.Popen([sys.executable, "-c", ""])  # noqa: ASYNC220 - the mistake.


async def process_of_the_loop(bootstrap_servers: str) -> None:
    await asyncio.create_subprocess_exec(sys.executable, "-c", "")


async def kafka_python(bootstrap_servers: str) -> None:
    KafkaProducer(bootstrap_servers=bootstrap_servers)


async def librdkafka(bootstrap_servers: str) -> None:
    Producer({"bootstrap.servers": bootstrap_servers})


async def librdkafka_by_its_module(bootstrap_servers: str) -> None:
    confluent_kafka.Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "a"})


USES: list[tuple[Callable[[str], Awaitable[None]], str, int]] = [
    (tls, "TLS to broker-1:9093: the simulated brokers speak PLAINTEXT", 1),
    (tls_of_a_client, "TLS to broker-", 4),
    (server, "a listening socket: run the part that serves requests without it", 1),
    (datagrams, "datagrams (UDP)", 1),
    (unknown_host, "'database' is no host of the simulation: there are broker-1, broker-2, broker-3", 1),
    (own_socket, "socket.getaddrinfo('127.0.0.1'): use asyncio's streams", 1),
    (bound_socket, "socket.bind(('127.0.0.1', 0)): use asyncio's streams", 2),
    (blocking_request, "socket.getaddrinfo('127.0.0.1'): use asyncio's streams", 1),
    (thread, "a thread (Thread-", 1),
    (process, "a process (", 1),
    (process_of_the_loop, "a process", 1),
    (kafka_python, "", 1),
    (librdkafka, "a client with threads of its own (cimpl.Producer): use asyncio's streams", 1),
    (librdkafka_by_its_module, "a client with threads of its own (cimpl.Consumer): use asyncio's streams", 1),
]


@pytest.mark.parametrize(("use", "what", "line"), USES, ids=[row[0].__name__ for row in USES])
def test_what_is_not_simulated_is_a_finding_at_once_with_the_line_of_the_call(
    use: Callable[[str], Awaitable[None]], what: str, line: int
) -> None:
    async def app(bootstrap_servers: str, scenario: Scenario) -> None:
        await asyncio.sleep(1)
        with contextlib.suppress(Exception):  # What is refused is no error of a client's that may be repeated.
            await use(bootstrap_servers)
        await asyncio.Event().wait()

    result = simulate(app, seed=1, faults=(), duration=600)
    assert result.findings[0].startswith(f"app-1: not simulated: {what}")
    first = use.__code__.co_firstlineno
    assert result.findings[0].endswith(f", at {__file__}:{first + line}")
    assert len(result.findings) == 1
    assert result.outcome.virtual_s < 60, "the run ends"
    assert [line for line in result.transcript[-3:] if "the run ends: " in line]


def test_the_clients_of_other_threads_and_of_later_are_untouched() -> None:
    made: list[object] = []

    async def app(bootstrap_servers: str, scenario: Scenario) -> None:
        ready.set()
        other.join()
        await asyncio.Event().wait()

    def make() -> None:
        ready.wait(60)
        made.append(Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}))
        inner = threading.Thread(target=lambda: made.append(socket.getaddrinfo("127.0.0.1", 1)))
        inner.start()
        inner.join()

    ready = threading.Event()
    other = threading.Thread(target=make)
    other.start()
    simulate(app, seed=1, faults=(), duration=2).check()
    assert len(made) == 2
    assert isinstance(Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}), confluent_kafka.Producer)
    assert "connect" not in vars(socket.socket)


def test_what_the_load_uses_is_a_finding_as_well() -> None:
    async def load(bootstrap_servers: str, scenario: Scenario) -> None:
        await asyncio.open_connection("database", 5432)

    found = simulate(waits, seed=1, faults=(), duration=5, load=load).findings
    assert found[0].startswith("test: not simulated: 'database' is no host of the simulation")


async def waits(bootstrap_servers: str, scenario: Scenario) -> None:
    await asyncio.Event().wait()


async def dies(bootstrap_servers: str, scenario: Scenario) -> None:
    await asyncio.sleep(1)
    if scenario.state.setdefault("deaths", 0) < 7:
        scenario.state["deaths"] += 1
        raise KeyError("orders")
    await asyncio.Event().wait()


A_FAULT = Fault(4.0, FaultKind.CRASH_BROKER, broker=3, instance=1, seconds=1.0)


@pytest.mark.parametrize("schedule", [(), (A_FAULT,)])
def test_an_application_that_dies_of_itself_is_a_finding_although_it_comes_to_rest(schedule: tuple[Fault, ...]) -> None:
    found = simulate(dies, seed=1, schedule=schedule, duration=30).findings
    why = "which no fault explains" if schedule else "without any fault"
    line = dies.__code__.co_firstlineno + 4
    assert found[0] == f"app-1 ended with KeyError('orders'), {why}, at {__file__}:{line}"
    assert len(found) == 7


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_an_application_that_dies_of_what_clients_raise_under_faults_is_started_again(is_wrapped: bool) -> None:
    async def app(bootstrap_servers: str, scenario: Scenario) -> None:
        if scenario.state.setdefault("deaths", 0) < 1:
            scenario.state["deaths"] += 1
            await asyncio.sleep(4)
            try:
                raise KafkaConnectionError("a broker is gone")
            except KafkaConnectionError as error:
                if not is_wrapped:
                    raise
                raise RuntimeError("the shop is closed") from error
        await asyncio.Event().wait()

    simulate(app, seed=1, schedule=[A_FAULT], duration=10).check()
    found = simulate(app, seed=1, schedule=[], duration=10).findings
    assert len(found) == 1
    assert found[0].startswith("app-1 ended with ")
    assert ", without any fault, at " in found[0]


async def holds_a_dead_task(bootstrap_servers: str, scenario: Scenario) -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("dead")

    held = asyncio.create_task(fail())
    await asyncio.Event().wait()
    await held


def test_a_task_that_has_died_is_a_finding_although_the_application_holds_it() -> None:
    assert simulate(holds_a_dead_task, seed=1, faults=(), duration=5).findings == [
        "a task ended with an exception that nothing awaited: fail: ValueError('dead')"
    ]


async def awaits_a_dead_task(bootstrap_servers: str, scenario: Scenario) -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("dead")

    held = asyncio.create_task(fail())
    await asyncio.wait([held])
    scenario.note(f"died of {held.exception()!r}")
    await asyncio.Event().wait()


def test_a_task_whose_end_the_application_looks_at_is_none() -> None:
    simulate(awaits_a_dead_task, seed=1, faults=(), duration=5).check()
