"""The requests that clients have sent, decoded, by connection: what a test asserts of how a client behaves."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import Any, Final

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.records.batch import read_header
from sordini.protocol.served_apis import Api
from sordini.system.named_tuple import NamedTuple
from sordini.testing.faults.names import api_text

KEPT_MAX: Final = 20_000
"""Requests of a site; the oldest are forgotten."""


class Sender(NamedTuple):
    """Who has sent a request, and to whom."""

    broker: int
    connection: str
    """`address:port` of the client."""
    client_id: str | None


class SeenRequest:
    """One request of a client."""

    def __init__(self, number: int, time_s: float, sender: Sender, api: Api, version: int, data: bytes) -> None:
        self.number = number
        """Counts the requests of a site."""
        self.time_s = time_s
        """Since the site's start."""
        self.broker, self.connection, self.client_id = sender
        self.key = ApiKey(api.key)
        self.version = version
        self.fault: str | None = None
        """What was done to it, if anything."""
        self._api = api
        self.data = data
        """The message on the wire, without the head of the request."""

    @property
    def api(self) -> str:
        """The API's name: `Produce`."""
        return api_text(self.key)

    @cached_property
    def body(self) -> Any:
        """The message, with the fields of the protocol's documents in lower case and underscores."""
        return codecs.decode(self._api.request, self.version, memoryview(self.data), 0)[0]

    @property
    def sequences(self) -> list[tuple[str, int, int]]:
        """Of a Produce: topic, partition and the first sequence of each batch; -1 without idempotence."""
        return [
            (topic.name, row.index, read_header(memoryview(row.records), 0).base_sequence)
            for topic in getattr(self.body, "topic_data", None) or ()
            for row in topic.partition_data
            if row.records
        ]

    def __str__(self) -> str:
        done = f"  [{self.fault}]" if self.fault else ""
        return (
            f"{self.time_s:9.3f} {self.connection} -> broker {self.broker}: {self.api} v{self.version} "
            f"({self.client_id}){done}"
        )

    __repr__ = __str__


class SeenRequests:
    """The requests of a site."""

    def __init__(self) -> None:
        self._kept: deque[SeenRequest] = deque(maxlen=KEPT_MAX)
        self.total = 0

    def add(self, request: SeenRequest) -> None:
        self._kept.append(request)
        self.total += 1

    def all(self) -> list[SeenRequest]:
        """Oldest first."""
        return list(self._kept)

    def clear(self) -> None:
        self._kept.clear()
