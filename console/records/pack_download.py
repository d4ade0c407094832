"""Records of a topic as a pack, as `sordini topics pack` writes it: the test kit loads it into a test's brokers."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.records.search import OFFSET, TIME, UNCOMMITTED, SearchRequest, in_time
from sordini.cli.commands.topics.packing import Limit, Packing, PackOptions, slices_of
from sordini.protocol.records.compression import GZIP

RECORDS_MAX: Final = 10_000
"""Of each partition."""
CHUNK_BYTES: Final = 64 * 1024


async def write_pack(cluster: ClusterClient, topic: str, request: SearchRequest) -> Iterator[bytes]:
    """The whole file in chunks. It is complete before the first: a pack that is cut is none. Raises ClientError."""
    begin = Limit(
        request.at if request.start == OFFSET else None,
        request.at if request.start == TIME else None,
    )
    isolation = "read_uncommitted" if request.shows == UNCOMMITTED else "read_committed"
    partitions = tuple(row.name.partition for row in request.rows)
    options = PackOptions([(topic, partitions)], begin, Limit(None, None), RECORDS_MAX, isolation, None, GZIP)
    header = await slices_of(cluster, options)
    with tempfile.TemporaryDirectory(prefix="sordini-console-") as folder:
        path = Path(folder) / "pack"
        await Packing(cluster, options, None, in_time).written(str(path), header)
        file = await asyncio.to_thread(path.open, "rb")
    return _chunks(file)  # The open file outlives its name.


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
