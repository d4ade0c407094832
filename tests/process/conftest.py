"""What the tests of real processes share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.outside.processes import SordiniProcess
from tests.support.wire_client import Client


@pytest.fixture
def connect() -> Iterator[Callable[..., Client]]:
    """Connect to a broker; the test's end hangs up."""
    with ExitStack() as stack:

        def open_one(broker: SordiniProcess | int, host: str = "127.0.0.1") -> Client:
            port = broker if isinstance(broker, int) else broker.port
            return stack.enter_context(Client(host, port))

        yield open_one
