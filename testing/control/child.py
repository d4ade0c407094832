"""The brokers' process of `isolation="process"`: everything in memory, with the control on a port of 127.0.0.1.

    test's process ── standard input: its end is the end of the test's process ──► this process
                   ◄── standard output: one line of JSON, the control's port or why there is none ──
                   ◄── HTTP ──

It ends when its standard input does, which the system closes however the test's process ends; and when it has got
another parent, should a process that the test has forked keep the pipe open.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
import threading
import time
from typing import Any, Final

from sordini.broker.configuration.settings import ConfigError
from sordini.broker.process.logging import make_logger
from sordini.broker.wiring.startup import StartRefused
from sordini.testing.brokers.node import SiteOptions
from sordini.testing.brokers.site import Site, SiteFailed
from sordini.testing.control.controlled import Control
from sordini.testing.control.server import ControlServer
from sordini.testing.kafka import Kafka

PARENT_CHECK_S: Final = 0.5


def main() -> None:
    """Run until the test's process ends. The only argument is JSON: see `RemoteSite`."""
    given = json.loads(sys.argv[1])
    threading.Thread(target=_end_with_parent, args=(given["parent"],), daemon=True).start()
    # The end of the interpreter would wait for threads that wait for brokers.
    os._exit(asyncio.run(_serve(given)))


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], PARENT_CHECK_S)
        if readable and not os.read(0, 1):
            break
    os._exit(0)


async def _serve(given: dict[str, Any]) -> int:
    left_s = max(given["end_monotonic_s"] - time.monotonic(), 0.0)
    site = Site(
        given["brokers"], given["entries"], given["seed"], SiteOptions(listeners=given["listeners"], start_s=left_s)
    )
    kafka = Kafka(site)
    server = ControlServer(Control(kafka, site), make_logger("error", sys.stderr))
    try:
        await asyncio.to_thread(kafka.start)
        _, port = await server.start("127.0.0.1", 0)
    except ConfigError as error:
        _say({"config": str(error)})
        return 1
    except (SiteFailed, StartRefused, OSError) as error:
        _say({"failed": str(error)})
        return 1
    _say({"port": port})
    await asyncio.Event().wait()
    raise AssertionError("the event is never set")


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
