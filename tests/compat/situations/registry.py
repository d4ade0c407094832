"""The list of situations, and what may legitimately differ between two answers to one of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.compat.situations.batches import describe
from tests.compat.situations.wire import Broker

Play = Callable[[Broker], Any]


class Situation(NamedTuple):
    """family: the API it is about; sentence: its name; play: holds the conversation, returns what was seen."""

    family: str
    sentence: str
    play: Play


SITUATIONS: list[Situation] = []


def situation(sentence: str) -> Callable[[Play], Play]:
    """Register a function as a situation of its module's family."""

    def register(play: Play) -> Play:
        family = play.__module__.rpartition(".")[2]
        SITUATIONS.append(Situation(family, sentence, play))
        return play

    return register


_TEXTS = {"error_message", "batch_index_error_message"}
_OWN_IDENTITY = {"host", "port", "cluster_id"}
_SOME_NUMBER = {"session_id", "log_append_time_ms"}


def normalise(value: Any, prefix: str, key: str = "", *, keep_texts: bool = False) -> Any:
    """Replace what two right brokers may answer differently, keeping whether it is there at all."""
    if isinstance(value, dict):
        return {
            str(name).replace(prefix, "P"): normalise(inner, prefix, str(name), keep_texts=keep_texts)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [normalise(inner, prefix, key, keep_texts=keep_texts) for inner in value]
    if key == "records":
        return normalise(describe(value), prefix, keep_texts=keep_texts)
    if key in _TEXTS and not keep_texts:
        return "any text or none"
    if isinstance(value, bytes):
        return _normalise_bytes(value, key)
    if key in _OWN_IDENTITY:
        return "its own" if value not in (None, "", -1) else value
    if key in _SOME_NUMBER:
        return "some" if value > 0 else value
    if key == "producer_id":
        return "some" if value >= 0 else value
    if isinstance(value, str):
        return value.replace(prefix, "P")
    return value


def _normalise_bytes(value: bytes, key: str) -> str:
    if key == "topic_id" or key.endswith("_topic_id"):
        return "none" if value == bytes(16) else "some"
    return value.hex()
