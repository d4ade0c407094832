"""What is known of one fault. Pure.

Texts are formats: `{at}` is the place, and the other names are facts that the probe hands over. A paragraph says what
is so, what a client sees of it, and the usual cause. The remedy is a line that can be pasted, and where it belongs.
"""

from __future__ import annotations

from sordini.system.named_tuple import NamedTuple


class Entry(NamedTuple):
    """One fault in sentences."""

    paragraph: str
    where: str
    """Where the remedy belongs, as the end of "The line that mends it, ..."."""
    lines: tuple[str, ...]
    is_note: bool = False
    """Clients and brokers work all the same."""


CLIENT = "in the client's configuration"
BROKER = "in the broker's server.properties"
