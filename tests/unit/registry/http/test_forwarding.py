"""Changes that are sent to the registry that writes."""

from __future__ import annotations

import asyncio

from sordini.registry.http.forwarding import AT_ONCE_MAX, Forwarder


async def test_requests_to_a_slow_writer_do_not_wait_for_one_another() -> None:
    count, arrived = 0, asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        await reader.readuntil(b"\r\n\r\n")
        count += 1
        if count == AT_ONCE_MAX:
            arrived.set()
        await arrived.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=AT_ONCE_MAX)
    host, port = server.sockets[0].getsockname()
    forwarder = Forwarder(None)
    url = f"http://{host}:{port}"
    answers = await asyncio.gather(*(forwarder.forward(url, "GET", "/", {}, b"") for _ in range(AT_ONCE_MAX)))
    assert {one.status for one in answers} == {200}
    server.close()
