"""The lag of pipeline jobs: of Spark's queries, by the checkpoints whose places the console was started with.

A checkpoint says how far a query has come; ends, ages and what arrives are the cluster's, read as the visitor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from sordini.admin.failure import Failure
from sordini.cli.commands.groups.checkpoint_folder import open_checkpoint
from sordini.client.cluster import Cluster
from sordini.client.errors import ClientError
from sordini.client.lag.cluster_reader import read_lags_of_readers
from sordini.client.lag.model import GroupLag
from sordini.client.lag.reading import Reader
from sordini.client.lag.spark_offsets import KIND, read_checkpoint
from sordini.system.clock import SystemClock

READ_S: Final = 10.0
"""For the files of all checkpoints; a slow object store does not hold up the page."""


async def read_checkpoints(cluster: Cluster, locations: Sequence[str]) -> dict[str, GroupLag]:
    """By place; one that cannot be read has a problem. Raises ClientError, if the cluster cannot be read."""
    readings = await asyncio.gather(*(_read(location) for location in locations))
    readers = [one for one in readings if isinstance(one, Reader)]
    found = await read_lags_of_readers(cluster, readers, SystemClock().now_ms) if readers else []
    lags = iter(found)
    return {
        location: next(lags) if isinstance(one, Reader) else GroupLag(location, KIND, "", 0, (), one)
        for location, one in zip(locations, readings, strict=True)
    }


async def _read(location: str) -> Reader | str:
    """The reader, or why there is none."""
    try:
        async with asyncio.timeout(READ_S):
            # In a thread: the files may be in an object store.
            return await asyncio.to_thread(lambda: read_checkpoint(open_checkpoint(location)))
    except TimeoutError:
        return f"{location} was not read within {READ_S:g} s"
    except (ClientError, Failure) as error:
        return str(error)
