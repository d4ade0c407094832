"""HTTP in front of the endpoints: a request becomes a call in a thread, and what it returns or raises the response.

200, 201  JSON of what was done
400       what is wrong with the request, where, and what is allowed
403       a web page sent it
404, 405  no such path, broker or fault; no such method
409       the brokers refused it, or did not come to it in time
413       a body that is too large
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import CancelledError as CallCancelled
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from sordini.broker.network.http import HttpLimits, HttpRequest, HttpResponse, HttpServer
from sordini.broker.wiring.startup import StartRefused
from sordini.replication.ports import Logger
from sordini.testing.arguments import ArgumentRefused
from sordini.testing.brokers.site import SiteFailed
from sordini.testing.control.controlled import Asked, Control
from sordini.testing.control.endpoints import find
from sordini.testing.control.fields import WrongRequest, body_fields, query_fields
from sordini.testing.own_client import KitError

JSON: Final = "application/json"
THREADS_MAX: Final = 16
LIMITS: Final = HttpLimits(connections_max=64, body_bytes_max=64 * 1024, answer_s_max=150.0)
REFUSED: Final = (KitError, SiteFailed, StartRefused, TimeoutError)
"""What the brokers did not do."""


class ControlServer:
    """Serves a control on the running loop."""

    def __init__(self, control: Control, log: Logger) -> None:
        self._control = control
        self._http = HttpServer(self._respond, log, LIMITS)
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="sordini-control")

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the real address. Raises OSError, naming the address."""
        return await self._http.start(host, port)

    async def close(self) -> None:
        """Stop listening. Calls that are being made end by themselves."""
        await self._http.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _respond(self, request: HttpRequest) -> HttpResponse:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._called, request)

    def _called(self, request: HttpRequest) -> HttpResponse:
        try:
            return self._done(request)
        except WrongRequest as wrong:
            return _json(wrong.status, wrong.as_json(), wrong.allowed if wrong.status == 405 else "")
        except REFUSED as error:
            return _json(409, {"error": str(error) or "the brokers did not do it in time"})
        except CallCancelled:
            return _json(409, {"error": "the cluster is being closed"})

    def _done(self, request: HttpRequest) -> HttpResponse:
        if "origin" in request.headers:
            # Any page in a browser of this machine could send requests to a port of it.
            raise WrongRequest("the request comes from a web page", "Origin", "no such header", 403)
        endpoint, parts = find(request.method, request.path)
        where = f"{endpoint.method} {endpoint.path}"
        is_read = endpoint.method == "GET"
        fields = query_fields(request.query, where) if is_read else body_fields(request.body, where)
        if not endpoint.has_fields:
            fields.refuse_others()
        try:
            return _json(endpoint.status, endpoint.handle(self._control, Asked(parts, fields)))
        except ArgumentRefused as refused:
            raise fields.refused(refused) from None


def _json(status: int, value: Any, allow: str = "") -> HttpResponse:
    return HttpResponse(status, [json.dumps(value).encode(), b"\n"], JSON, allow)
