"""What a producer is given: messages for one topic with one key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class ProducerData(NamedTuple):
    """Messages that go to the same partition together. The key chooses it, and is not stored in them."""

    topic: str
    key: Any
    """None: any partition, at random."""
    messages: Sequence[Any]
