"""A program: one member of a group, which writes down each fetch of an owned partition and each message it gets.

    python member.py '{"properties": {...}, "topic": "orders", "history": "PATH"}'

It prints "ready" when it has its partitions, and ends in order at the end of its standard input or by SIGTERM.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

from examples.heritage.config import ConsumerConfig
from examples.heritage.consumer_connector import ConsumerConnector
from examples.heritage.fetchers import FetchInterval


class History:
    """Lines in a file, each written at once: a member may be stopped at any time."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, **fields: Any) -> None:
        os.write(self._file, (json.dumps(fields) + "\n").encode())

    def fetched(self, one: FetchInterval) -> None:
        fields = {"fetched": one.partition.partition, "began_s": one.began_s, "ended_s": one.ended_s}
        self.write(**fields, is_accepted=one.is_accepted)


def main() -> None:
    orders = json.loads(sys.argv[1])
    history = History(orders["history"])
    connector = ConsumerConnector(ConsumerConfig.of(orders["properties"]), history.fetched)
    (stream,) = connector.create_message_streams({orders["topic"]: 1})[orders["topic"]]
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=connector.shutdown).start())
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for message in stream:
        text = (message.message or b"").decode()
        history.write(message=text, partition=message.partition, offset=message.offset, at_s=time.monotonic())


if __name__ == "__main__":
    main()
