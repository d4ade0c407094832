"""`sordini registry` as a process, and requests to it."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.outside.serving_process import ServingProcess


class RegistryProcess(ServingProcess):
    """A registry beside a cluster."""

    name = "registry"
    port_option = "--listen"
    ready_line = re.compile(r"^sordini registry of \S+ is ready \(([^)]+)\): (https?://\S+:\d+)$", re.MULTILINE)

    @property
    def url(self) -> str:
        return self.ready[2]


class Reply(NamedTuple):
    status: int
    value: Any


def send(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    context: ssl.SSLContext | None = None,
) -> Reply:
    """The answer of a registry, whose JSON is decoded."""
    address = urlsplit(url)
    host, port = address.hostname or "", address.port
    connection = (
        http.client.HTTPConnection(host, port, timeout=40)
        if context is None
        else http.client.HTTPSConnection(host, port, timeout=40, context=context)
    )
    try:
        given = {"content-type": "application/vnd.schemaregistry.v1+json", **(headers or {})}
        connection.request(method, path, None if body is None else json.dumps(body), given)
        response = connection.getresponse()
        return Reply(response.status, json.loads(response.read()))
    finally:
        connection.close()
