"""confluent-kafka's administration client, once it knows the controller of its cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka.admin import AdminClient

SECONDS_MAX = 60.0
POLL_SECONDS = 0.1


def admin_of(settings: Mapping[str, object]) -> AdminClient:
    """A client with these settings.

    A broker that has just started may not know the controller, and the client then looks for it only minutes later: so
    this reads the metadata until they name one.
    """
    admin = AdminClient(dict(settings))
    deadline = time.monotonic() + SECONDS_MAX
    while admin.list_topics(timeout=SECONDS_MAX).controller_id < 0:
        assert time.monotonic() < deadline, f"no controller within {SECONDS_MAX} s"
        time.sleep(POLL_SECONDS)
    return admin
