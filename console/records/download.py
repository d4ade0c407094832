"""What a search finds as JSON lines, as `sordini consume --format json` writes them: no limit but that of one file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.records.search import Bounds, Search, SearchRequest
from sordini.cli.commands.records.line_formats import packed_line
from sordini.cli.common.output import json_line
from sordini.client.errors import ClientError

FILE_BYTES_MAX: Final = 1024 * 1024 * 1024
CHUNK_BYTES: Final = 64 * 1024
DOWNLOAD: Final = Bounds(records=10_000_000, size=FILE_BYTES_MAX, seconds=600.0)


async def json_lines(cluster: ClusterClient, request: SearchRequest) -> AsyncIterator[bytes]:
    """The lines in chunks; the cluster's client is closed at the end. The last line says if a bound was reached."""
    chunk = bytearray()
    async with cluster:
        search = Search(cluster, request, DOWNLOAD)
        try:
            async for row, record, is_log_append_time in search.matching():
                chunk += packed_line(row.name.topic, row.name.partition, record, is_log_append_time=is_log_append_time)
                if len(chunk) >= CHUNK_BYTES:
                    yield bytes(chunk)
                    chunk.clear()
            problem = search.result.stopped
        except ClientError as error:
            problem = str(error)
    if problem:
        chunk += json_line({"stopped": problem})
    yield bytes(chunk)
