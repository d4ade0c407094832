"""The list of situations, and what may legitimately differ between two answers to one of them."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.compat.situations.batches import describe
from tests.compat.situations.wire import Broker

Play = Callable[[Broker], Any]


ZOOKEEPER, KRAFT = "zookeeper", "kraft"
"""Which Apache Kafka judges: 3.9.1 with ZooKeeper, or 4.4.0, which knows none."""


class Situation(NamedTuple):
    """family: the API it is about; sentence: its name; play: holds the conversation, returns what was seen."""

    family: str
    sentence: str
    play: Play
    judge: str


SITUATIONS: list[Situation] = []


def situation(sentence: str, *, judge: str = ZOOKEEPER) -> Callable[[Play], Play]:
    """Register a function as a situation of its module's family."""

    def register(play: Play) -> Play:
        family = play.__module__.rpartition(".")[2]
        SITUATIONS.append(Situation(family, sentence, play, judge))
        return play

    return register


_TEXTS = {"error_message", "batch_index_error_message"}
_OWN_IDENTITY = {"host", "port", "cluster_id"}
_SOME_NUMBER = {
    "session_id",
    "log_append_time_ms",
    "commit_timestamp",
    "expire_timestamp",
    "current_state_timestamp",
    "transaction_start_time_ms",
    "last_timestamp",
}


_RANDOM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What a coordinator appends to a client's name to make a member id."""
_PRODUCER = re.compile(r"^producer id \d+$")


def normalise(value: Any, prefix: str, *, keep_texts: bool = False) -> Any:
    """Replace what two right brokers may answer differently, keeping whether it is there at all.

    The random part of member ids becomes 'm1', 'm2' in the order in which they are first seen; producer ids 'p1', 'p2'.
    """
    return _numbered(_normalise(value, prefix, "", keep_texts=keep_texts), {}, {})


def _numbered(value: Any, members: dict[str, str], producers: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _numbered(inner, members, producers) for name, inner in value.items()}
    if isinstance(value, list):
        return [_numbered(inner, members, producers) for inner in value]
    if isinstance(value, str):
        value = _PRODUCER.sub(lambda found: producers.setdefault(found[0], f"p{len(producers) + 1}"), value)
        return _RANDOM.sub(lambda found: members.setdefault(found[0], f"m{len(members) + 1}"), value)
    return value


def _normalise(value: Any, prefix: str, key: str, *, keep_texts: bool) -> Any:
    if isinstance(value, dict):
        return {
            str(name).replace(prefix, "P"): _normalise(inner, prefix, str(name), keep_texts=keep_texts)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_normalise(inner, prefix, key, keep_texts=keep_texts) for inner in value]
    if key == "records":
        return _normalise(describe(value), prefix, "", keep_texts=keep_texts)
    if key in _TEXTS and not keep_texts:
        return "any text or none"
    if isinstance(value, bytes):
        return _normalise_bytes(value, key)
    if key in _OWN_IDENTITY:
        return "its own" if value not in (None, "", -1) else value
    if key in _SOME_NUMBER:
        return "some" if value > 0 else value
    if key == "producer_id":
        return f"producer id {value}" if value >= 0 else value
    if isinstance(value, str):
        return value.replace(prefix, "P")
    return value


def _normalise_bytes(value: bytes, key: str) -> str:
    if key == "topic_id" or key.endswith("_topic_id"):
        return "none" if value == bytes(16) else "some"
    return value.hex()
