"""The limits before the application: rates, sizes and headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sordini.console.security.request_limits import (
    BODY_BYTES_MAX,
    POLICY,
    QUERY_BYTES_MAX,
    REQUESTS_BURST,
    BodyTooLarge,
    RequestLimits,
)
from sordini.console.settings import ConsoleSettings


async def answer(
    limits: RequestLimits, *, address: str = "127.0.0.1", query: bytes = b"", **headers: str
) -> dict[str, Any]:
    """The start of the response, with its headers by name."""
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError("a refused body is not read")

    async def send(message: Any) -> None:
        messages.append(message)

    given = {"host": "localhost", **headers}
    scope = {
        "type": "http",
        "path": "/topics",
        "query_string": query,
        "client": (address, 5),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
    }
    await limits(scope, receive, send)
    return {
        "status": messages[0]["status"],
        **{name.decode(): value.decode() for name, value in messages[0]["headers"]},
    }


async def served(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def made(now_s: Callable[[], float] = lambda: 0.0, app: Any = served) -> RequestLimits:
    return RequestLimits(app, ConsoleSettings(), now_s)


async def test_a_body_that_says_it_is_too_large_is_refused_unread() -> None:
    assert (await answer(made(), content_length=str(BODY_BYTES_MAX)))["status"] == 200
    for length in (str(BODY_BYTES_MAX + 1), "-1", "many"):
        assert (await answer(made(), content_length=length))["status"] == 413


async def test_a_body_that_does_not_say_its_size_is_read_up_to_the_limit() -> None:
    received = 0

    async def application(scope: Any, receive: Any, send: Any) -> None:
        nonlocal received
        while True:
            received += len((await receive())["body"])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": bytes(64 * 1024), "more_body": True}

    async def send(message: Any) -> None:
        raise AssertionError("nothing is answered")

    scope = {"type": "http", "path": "/", "headers": [(b"host", b"localhost")], "client": ("a", 1)}
    with pytest.raises(BodyTooLarge):
        await made(app=application)(scope, receive, send)
    assert received <= BODY_BYTES_MAX


async def test_requests_of_an_address_beyond_the_burst_are_refused_until_time_passes() -> None:
    now_s = 0.0
    limits = made(lambda: now_s)
    statuses = [(await answer(limits))["status"] for _ in range(REQUESTS_BURST + 1)]
    assert statuses == [200] * REQUESTS_BURST + [429]
    assert (await answer(limits, address="10.0.0.1"))["status"] == 200
    now_s = 1.0
    assert (await answer(limits))["status"] == 200


async def test_refusals_have_the_policy_too() -> None:
    for found in (await answer(made(), host="evil.example"), await answer(made(), query=b"x" * (QUERY_BYTES_MAX + 1))):
        assert found["status"] in (421, 414)
        assert found["content-security-policy"] == POLICY
        assert found["cache-control"] == "no-store"
