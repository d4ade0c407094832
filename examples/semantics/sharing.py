"""One member of a group that shares a topic through ZooKeeper; start it more than once to see partitions move.

    python -m examples.semantics.sharing --zookeeper localhost:2181 --group reports orders

It prints messages as they come, at least once: an offset is committed when its message is printed. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable

from examples.heritage.config import ConsumerConfig
from examples.heritage.consumer_connector import ConsumerConnector
from examples.heritage.errors import HeritageError


def share(connector: ConsumerConnector, topic: str, tell: Callable[[str], None]) -> None:
    """Read one stream of a topic until the connector is shut down."""
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    tell(f"{connector.consumer_id} owns {', '.join(map(str, connector.owned_partitions)) or 'nothing yet'}")
    for message in stream:
        tell(
            f"{message.topic}-{message.partition} {message.offset}: {(message.message or b'').decode(errors='replace')}"
        )
        connector.commit_offsets()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.semantics.sharing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--zookeeper", required=True, help="as zookeeper.connect of the brokers")
    parser.add_argument("--group", required=True)
    parser.add_argument("topic")
    asked = parser.parse_args()
    properties = {"group.id": asked.group, "zookeeper.connect": asked.zookeeper, "auto.commit.enable": False}
    try:
        connector = ConsumerConnector(ConsumerConfig.of(properties))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: threading.Thread(target=connector.shutdown).start())
        share(connector, asked.topic, lambda line: print(line, flush=True))
    except HeritageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
