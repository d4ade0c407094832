"""What two registries must answer alike: the status, the code of an error, and the members and values of a body.

Texts for people are not compared, nor how the text of a schema is spaced, nor the order of a list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tests.registry.judge.reasons import REASONS
from tests.registry.judge.transcript import UNDECIDED, Answered, Block, Exchange

ADDED: Final = frozenset({"guid", "ts"})
"""Members of a schema that the API has and the judge has not."""
AVRO: Final = ("schemaType", "AVRO")
"""The kind without a name."""
TEXT_FOR_PEOPLE: Final = "message"


def shape(answer: str) -> Any:
    """What is compared of an answer: its status and its body."""
    status, _, body = answer.partition(" ")
    try:
        value = json.loads(body)
    except ValueError:
        return status, body
    if isinstance(value, list):
        return status, sorted((_shape(one) for one in value), key=partial(json.dumps, sort_keys=True))
    return status, _shape(value)


def _shape(value: Any) -> Any:
    """Members that are null or empty are as if they were not there."""
    if not isinstance(value, dict):
        return value
    kept = {
        name: one
        for name, one in value.items()
        if one not in (None, []) and name not in ADDED and (name, one) != AVRO and name != TEXT_FOR_PEOPLE
    }
    if "schema" in kept and isinstance(kept["schema"], str):
        kept["schema"] = _parsed(kept["schema"])
    if "messages" in kept:
        kept["messages"] = True
    return kept


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def with_ours(blocks: Sequence[Block], ours: Sequence[Sequence[str]]) -> list[Block]:
    """The transcript with these answers of ours; a reason stays where the answers still differ."""
    return [
        block._replace(exchanges=[_compared(one, answer) for one, answer in zip(block.exchanges, answers, strict=True)])
        for block, answers in zip(blocks, ours, strict=True)
    ]


def _compared(exchange: Exchange, ours: str) -> Exchange:
    answered = exchange.answered
    assert answered is not None, f"{exchange.request} was not recorded"
    if shape(answered.theirs) == shape(ours):
        return exchange._replace(answered=Answered(answered.theirs))
    return exchange._replace(answered=Answered(answered.theirs, ours, answered.why or UNDECIDED))


def undecided(blocks: Sequence[Block]) -> list[str]:
    """The requests that are answered differently without a known reason."""
    return [
        exchange.request
        for block in blocks
        for exchange in block.exchanges
        if exchange.answered is not None and exchange.answered.ours is not None and exchange.answered.why not in REASONS
    ]
