"""What the elements of a request may cost to decode, and how large a response made of rows may be."""

from __future__ import annotations

from typing import Final

from sordini.protocol.primitives import ROW_COST
from sordini.protocol.served_apis import INTER_BROKER_APIS, Api

COST_AT_ONCE: Final = 2_000 * ROW_COST
"""The most that the elements of a request may cost for it to be decoded in one go."""
COST_MAX: Final = 50_000 * ROW_COST
"""The most that they may cost in a request of up to COST_BYTES; a larger one may cost as much for each COST_BYTES."""
COST_BYTES: Final = 1 << 20
INTER_BROKER_COST_FACTOR: Final = 2
"""Requests between brokers may cost this much more: their rows are cheap, and they must not be refused."""

ANSWER_BYTES_MAX: Final = 100 * 1024 * 1024
"""Limit of a response made of rows: the default limit of a request, and what clients of librdkafka read."""


def cost_max_of(api: Api) -> int:
    """The most that the elements of a request of up to COST_BYTES may cost."""
    return COST_MAX * (INTER_BROKER_COST_FACTOR if api.key in INTER_BROKER_APIS else 1)
