"""The least registry in a process of its own, and a client of it: `python -m tests.registry.journal.numbering_process`.

A request and its answer are a line of JSON each, on a loopback connection for every request:

    {"register": "text"}  {"id": 7}, {"writer": URL or null} where another one writes, {"failed": why}
    {"state": true}       {"ids": {"text": 7}, "digest": of all records that were applied} at the log end of now
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from sordini.broker.process.log_writer import standard_error
from sordini.broker.process.logging import make_logger
from sordini.registry.ports import JournalFailed, NotTheWriter
from tests.outside.ports import free_port
from tests.outside.processes import OutsideProcess
from tests.registry.journal.numbering import NumberingRegistry, settings

ROOT = Path(__file__).parents[3]
LINE_BYTES_MAX = 16 * 1024 * 1024
ANSWER_S_MAX = 30.0
APPEND_MS = 6_000
READY = "registry is ready"


class NumberingProcess(OutsideProcess):
    """One of the registries."""

    start_seconds_max = 60.0

    def __init__(self, directory: Path, bootstrap: str, topic: str) -> None:
        self.port = free_port()
        self.name = f"registry-{self.port}"
        super().__init__(directory)
        self._bootstrap = bootstrap
        self._topic = topic

    def command(self) -> list[str]:
        return [sys.executable, "-m", __spec__.name, self._bootstrap, str(self.port), self._topic]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": str(ROOT)}

    def is_ready(self) -> bool:
        return READY in self.output()


async def ask(port: int, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of the registry at a port. Raises OSError, TimeoutError and ValueError for none."""
    async with asyncio.timeout(ANSWER_S_MAX):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LINE_BYTES_MAX)
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            answer: dict[str, Any] = json.loads(await reader.readline())
            return answer
        finally:
            writer.close()


async def main(bootstrap: str, port: int, topic: str) -> None:
    log = make_logger("info", standard_error())
    registry = NumberingRegistry(bootstrap, settings(port, topic=topic, group=topic, append_ms=APPEND_MS), log)

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        try:
            if "register" in request:
                return {"id": await registry.register(request["register"])}
            await registry.journal.wait_until_current()
        except NotTheWriter as error:
            return {"writer": error.writer}
        except JournalFailed as error:
            return {"failed": str(error)}
        digest = hashlib.sha256(repr(registry.records).encode()).hexdigest()
        return {"ids": registry.ids, "digest": digest, "count": len(registry.records)}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(json.dumps(await answer(json.loads(await reader.readline()))).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError):
            return  # A client that went away.
        finally:
            writer.close()

    running = asyncio.create_task(registry.journal.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    await registry.journal.wait_until_current()
    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=LINE_BYTES_MAX, family=socket.AF_INET)
    log.info(READY)
    async with server:
        await asyncio.gather(running, return_exceptions=True)
    if not running.cancelled() and (error := running.exception()) is not None:
        log.error("registry ended", reason=str(error))
        raise SystemExit(1)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
