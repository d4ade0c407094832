"""Calls beside the loop, which would reach the machine from inside of a simulation: refused while one runs.

Blocking clients (kafka-python, requests) open sockets of their own, and most start threads; confluent-kafka does both
in C, where nothing can be replaced, so its classes are. Only the simulation's thread is refused anything.
"""

from __future__ import annotations

import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from sordini.system.named_tuple import NamedTuple
from sordini.testing.simulation.not_simulated import Refusals

_FOREIGN_MODULES: Final = ("confluent_kafka", "confluent_kafka.cimpl", "confluent_kafka.admin")
_FOREIGN_CLASSES: Final = frozenset(
    {"Producer", "Consumer", "AdminClient", "SerializingProducer", "DeserializingConsumer"}
)
_SELECTORS: Final = tuple(
    getattr(selectors, name)
    for name in ("SelectSelector", "PollSelector", "EpollSelector", "KqueueSelector")
    if hasattr(selectors, name)
)
ASYNCIO: Final = "use asyncio's streams or a client on them, such as aiokafka"


class Replacement(NamedTuple):
    """An attribute, and what stands for it in a simulation."""

    owner: Any
    name: str
    value: Any


def foreign_calls(refusals: Refusals) -> Iterator[Replacement]:
    """What is replaced for the calling thread."""
    thread = threading.get_ident()

    def refusing(owner: Any, name: str, description: Callable[[tuple[Any, ...]], str]) -> Replacement:
        real = getattr(owner, name)

        def called(*arguments: Any, **options: Any) -> Any:
            if threading.get_ident() != thread:
                return real(*arguments, **options)
            raise refusals.refused(description(arguments))

        return Replacement(owner, name, called)

    yield refusing(threading.Thread, "start", lambda given: f"a thread ({given[0].name}): use asyncio.to_thread")
    yield refusing(subprocess.Popen, "__init__", lambda given: f"a process ({given[1]})")
    for name in ("connect", "connect_ex", "bind", "sendto"):
        yield refusing(socket.socket, name, lambda given, name=name: f"socket.{name}({given[-1]!r}): {ASYNCIO}")  # type: ignore[misc]
    for name in ("getaddrinfo", "gethostbyname"):
        yield refusing(socket, name, lambda given, name=name: f"socket.{name}({given[0]!r}): {ASYNCIO}")  # type: ignore[misc]
    for kind in _SELECTORS:
        # A client with a loop of its own would wait on the machine's clock, which the simulation does not move.
        yield refusing(kind, "select", lambda _: f"a loop of a client's own (selectors): {ASYNCIO}")
    yield from _foreign_clients(thread, refusals)


def _foreign_clients(thread: int, refusals: Refusals) -> Iterator[Replacement]:
    """The classes of clients in C, wherever they were imported to."""
    modules = [sys.modules[name] for name in _FOREIGN_MODULES if name in sys.modules]
    classes = {
        found: _refused_class(found, thread, refusals)
        for module in modules
        for name, found in vars(module).items()
        if name in _FOREIGN_CLASSES and isinstance(found, type)
    }
    if not classes:
        return
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if isinstance(value, type) and value in classes:
                yield Replacement(module, name, classes[value])


def _refused_class(real: Any, thread: int, refusals: Refusals) -> Any:
    def new(_: type, *arguments: Any, **options: Any) -> Any:
        if threading.get_ident() != thread:
            return real(*arguments, **options)
        raise refusals.refused(f"a client with threads of its own ({real.__module__}.{real.__name__}): {ASYNCIO}")

    return type(real.__name__, (real,), {"__new__": new})
