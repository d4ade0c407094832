"""The names under which a broker reports its health, and the values that `sordini.store.contact` begins with.

They are no settings: DescribeConfigs returns them for a broker resource when a request names them.
Brokers answer with them (`health.py`), and commands request them; this module is all that the two share.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

SERVING: Final = "sordini.serving"
STORE_CONTACT: Final = "sordini.store.contact"
STORE_BROKERS: Final = "sordini.store.brokers"
STORE_CONTROLLER: Final = "sordini.store.controller"
UNREACHED: Final = "sordini.controller.unreached"

MEANINGS: Final = {
    SERVING: "Whether the broker serves: `yes`, or `no: ` and the reason.",
    STORE_CONTACT: "The result of reading from the coordination store now: connected, silent, lost or "
    "unregistered, and the reason.",
    STORE_BROKERS: "Ids of the brokers that are registered in the coordination store; null where it cannot be read.",
    STORE_CONTROLLER: "Id of the controller by the coordination store, or `none`; null where it cannot be read.",
    UNREACHED: "Brokers that commands of this broker, as the controller, do not reach now, and why; empty without one.",
}
"""The keys and their documentation."""

YES: Final = "yes"
NONE: Final = "none"


class StoreFinding(Enum):
    """A broker's contact with the coordination store."""

    CONNECTED = "connected"
    """The store answers, and has this broker's cluster and its current registration."""
    SILENT = "silent"
    """The store does not answer, or there is no session with it."""
    LOST = "lost"
    """The store answers, and does not hold the broker's cluster."""
    UNREGISTERED = "unregistered"
    """The store answers, and does not have the broker's current registration."""
