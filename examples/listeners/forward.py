"""Forward TCP connections: `forward.py PORT HOST:PORT`. It stands for the program of a tunnel."""

from __future__ import annotations

import asyncio
import contextlib
import sys

CHUNK_BYTES = 64 * 1024


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()


async def main(port: int, host: str, target: int) -> None:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner = await asyncio.open_connection(host, target)
        except OSError as error:
            print(f"{host}:{target}: {error}", file=sys.stderr)
            writer.close()
            return
        await asyncio.gather(copy(reader, inner[1]), copy(inner[0], writer))

    server = await asyncio.start_server(forward, "", port)
    await server.serve_forever()


if __name__ == "__main__":
    host, _, target = sys.argv[2].rpartition(":")
    asyncio.run(main(int(sys.argv[1]), host, int(target)))
