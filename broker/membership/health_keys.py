"""The names under which a broker says how it is, and the values that begin those of `sordini.store.contact`.

They are no settings: DescribeConfigs has them for the resource of a broker, and only when a request names them.
Brokers answer with them (`condition.py`), commands ask for them; this module is all that the two share.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

SERVING: Final = "sordini.serving"
STORE_CONTACT: Final = "sordini.store.contact"
STORE_BROKERS: Final = "sordini.store.brokers"
STORE_CONTROLLER: Final = "sordini.store.controller"

MEANINGS: Final = {
    SERVING: "Whether the broker serves: `yes`, or `no: ` and the reason.",
    STORE_CONTACT: "What the broker finds when it reads from the coordination store now: connected, silent, lost or "
    "unregistered, and the reason.",
    STORE_BROKERS: "Ids of the brokers that are registered in the coordination store; null where it cannot be read.",
    STORE_CONTROLLER: "Id of the controller by the coordination store, or `none`; null where it cannot be read.",
}
"""The keys, and the documentation that goes with them."""

YES: Final = "yes"
NONE: Final = "none"


class StoreFinding(Enum):
    """A broker's contact with the coordination store."""

    CONNECTED = "connected"
    """The store answers, and has this broker's cluster and its registration."""
    SILENT = "silent"
    """The store does not answer, or there is no session with it."""
    LOST = "lost"
    """The store answers, and what it holds is not the broker's cluster."""
    UNREGISTERED = "unregistered"
    """The store answers, and does not have the broker's present registration."""
