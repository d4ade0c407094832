"""What a request to change settings asks for, and what it may ask: pure, and the same whether it is carried out.

Checks and their codes are those of Apache Kafka's brokers in ZooKeeper mode: a wrong value of a topic is
INVALID_CONFIG, a wrong value of a broker INVALID_REQUEST.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from sordini.broker.configuration.accepted import ACCEPTED_STATIC
from sordini.broker.configuration.config import SETTINGS
from sordini.broker.configuration.settings import ConfigError, Rule, ValueKind, value_text
from sordini.broker.configuration.topic_config import (
    TOPIC_SETTINGS,
    check_topic_configs,
    default_of,
    unusable_overrides,
)
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.primitives import STRING_BYTES_MAX

# Nobody loads code, trusts a key or opens a door because a request over the wire said so.
SECURITY_KEY = re.compile(
    r"(.*\.)?(ssl|sasl|security|password|delegation\.token)\..*|.*\.(class|class\.name|reporters|password|secret|key)",
    re.DOTALL,
)


class Operation(IntEnum):
    """What is done to one key (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Edit(NamedTuple):
    """One key to change; the value counts unless the key is deleted."""

    key: str
    operation: int
    value: str | None


def check_edits(edits: Sequence[Edit]) -> None:
    """Raise BrokerError INVALID_REQUEST unless each key is named once, with a value where one is needed."""
    keys = [edit.key for edit in edits]
    if len(set(keys)) != len(keys):
        raise BrokerError(ErrorCode.INVALID_REQUEST, "a key is named more than once")
    for edit in edits:
        if edit.operation not in Operation.__members__.values():
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{edit.key}: there is no operation {edit.operation}")
        if edit.value is None and edit.operation != Operation.DELETE:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{edit.key} has no value; deleting it takes none")


def edit_topic(overrides: Mapping[str, str], edits: Sequence[Edit]) -> dict[str, str]:
    """A topic's overrides after the edits; raises BrokerError INVALID_CONFIG.

    Overrides that somebody wrote past us into the store and that are of no use stay, and do not stand in the way.
    """
    defaults = {key: value_text(default_of(key)) for key in TOPIC_SETTINGS}
    edited = _apply(overrides, edits, {key: known.rule for key, known in TOPIC_SETTINGS.items()}, defaults)
    touched = {edit.key for edit in edits}
    useless = {entry.key for entry in unusable_overrides(edited)} - touched
    try:
        check_topic_configs({key: text for key, text in edited.items() if key not in useless})
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return edited


def edit_broker(entries: Mapping[str, str], edits: Sequence[Edit]) -> dict[str, str]:
    """A dynamic layer of brokers' settings after the edits; raises BrokerError INVALID_REQUEST, INVALID_CONFIG.

    Keys that nobody here knows are taken, as Apache Kafka does: they may be another broker's.
    """
    rules = {key: known.rule for key, (_, known) in SETTINGS.items()}
    defaults = {key: known.default_text for key, (_, known) in SETTINGS.items()}
    edited = _apply(entries, edits, rules, defaults)
    for edit in edits:
        if edit.key in edited:
            _check_broker_key(edit.key, edited[edit.key])
    return edited


def _check_broker_key(key: str, text: str) -> None:
    known = SETTINGS.get(key)
    if key in ACCEPTED_STATIC or (known is not None and not known[1].is_dynamic):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"{key} cannot be changed while the broker runs")
    if not key or SECURITY_KEY.fullmatch(key):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"{key} is not changed over the wire, only where brokers start")
    if known is not None:
        try:
            known[1].rule.read(key, text)
        except ConfigError as error:
            raise BrokerError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _apply(
    entries: Mapping[str, str], edits: Sequence[Edit], rules: Mapping[str, Rule], defaults: Mapping[str, str | None]
) -> dict[str, str]:
    edited = dict(entries)
    for key, operation, value in edits:
        text = (value or "").strip()
        if operation == Operation.SET:
            edited[key] = text
        elif operation == Operation.DELETE:
            edited.pop(key, None)
        else:
            edited[key] = _edit_list(key, operation, text, edited.get(key, defaults.get(key) or ""), rules.get(key))
    return edited


def _edit_list(key: str, operation: int, text: str, former: str, rule: Rule | None) -> str:
    """A list with members more or fewer. What was not set begins as the key's default, not as what is inherited."""
    if rule is None or rule.kind is not ValueKind.LIST:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{key} is not a list: nothing is appended or subtracted")
    members, named = _members(former), dict.fromkeys(_members(text))
    if operation == Operation.APPEND:
        there = set(members)
        edited = ",".join(members + [name for name in named if name not in there])
    else:
        edited = ",".join(name for name in members if name not in named)
    if len(edited.encode()) > STRING_BYTES_MAX:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{key} would be longer than {STRING_BYTES_MAX} bytes")
    return edited


def _members(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
