"""Writes batches as transactions, and is killed at one moment after the other: kill -9 of real processes, without Spark.

    python transaction_killer.py BOOTSTRAP TOPIC FOLDER

Moments are right before and right after each request of the driver's part. For each moment there is a batch of its own:
its files are staged, a child writes them and is killed at that moment, and another child does it again, as a restarted
driver would. Each line of standard output is JSON: whether the first child lived, and whether the second one found the
batch committed. The last two lines are those of children that lived.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from sordini.client.addresses import Address
from sordini.client.ports import Transport
from sordini.pipeline.source.client import ClientSettings
from sordini.pipeline.source.client.transport import SYSTEM, ClientPorts, connect
from sordini.pipeline.source.sink_options import SinkOptions, read_sink_options
from sordini.pipeline.source.staged_records import StagedFile, stage
from sordini.pipeline.source.transaction_writer import write_batch

ROWS = 40
MOMENTS_MAX = 200
QUERY = "query"


class Death:
    """Kills this process at the n-th moment, from 0."""

    def __init__(self, moments_left: int) -> None:
        self._moments_left = moments_left

    def moment(self) -> None:
        if self._moments_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._moments_left -= 1


class MortalTransport:
    """A transport whose process may be killed before and after each request."""

    def __init__(self, transport: Transport, death: Death) -> None:
        self._transport = transport
        self._death = death

    def send(self, data: bytearray, seconds: float) -> None:
        self._death.moment()
        self._transport.send(data, seconds)
        self._death.moment()

    def receive_into(self, buffer: bytearray | memoryview, seconds: float) -> int:
        return self._transport.receive_into(buffer, seconds)

    def close(self) -> None:
        self._transport.close()


def mortal(moments: int) -> ClientPorts:
    death = Death(moments)

    def to(address: Address, settings: ClientSettings) -> Transport:
        return MortalTransport(connect(address, settings), death)

    return SYSTEM._replace(connect=to)


def staged(batch_id: int, options: SinkOptions) -> list[StagedFile]:
    """Two tasks' files, and one of an attempt that is lost."""

    def task(first: int) -> Iterator[pa.RecordBatch]:
        numbers = range(first, first + ROWS // 2)
        values = [f"value-{batch_id}-{number}".encode() for number in numbers]
        keys = [b"key-%d" % number for number in numbers]
        yield pa.RecordBatch.from_pydict({"key": pa.array(keys), "value": pa.array(values)})

    stage(task(0), str(batch_id), options)
    found = [stage(task(first), str(batch_id), options) for first in (0, ROWS // 2)]
    return [file for file in found if file is not None]


def in_child(files: list[StagedFile], batch_id: int, options: SinkOptions, ports: ClientPorts) -> bool | None:
    """Whether a forked process found the batch new; None if it was killed. Nothing here has started a thread before."""
    child = os.fork()
    if child == 0:
        os._exit(0 if write_batch(files, batch_id, QUERY, options, ports) else 1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return None
    assert os.WEXITSTATUS(status) in (0, 1), "a child failed: see standard error"
    return os.WEXITSTATUS(status) == 0


def tell(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(bootstrap: str, topic: str, folder: str) -> None:
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": topic,
        "kafka.transactional.id": topic,
        "kafka.batch.size": "200",
        "stagingLocation": folder,
    }
    options = read_sink_options(given, {"key": "binary", "value": "binary"})
    for moment in range(MOMENTS_MAX):
        files = staged(moment, options)
        lived = in_child(files, moment, options, mortal(moment)) is not None
        # A driver deletes what it staged when the batch is committed; a repeated batch is staged again.
        again = in_child(staged(moment, options), moment, options, SYSTEM)
        tell({"lived": lived, "was_there": not again})
        if lived:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
