"""Validation and application of the edits in a request to change settings. Pure; also used for validate_only.

Checks and their codes are those of Apache Kafka's brokers in ZooKeeper mode: a wrong value of a topic is
INVALID_CONFIG, a wrong value of a broker INVALID_REQUEST. Those of groups and of subscriptions to
client metrics are of its brokers without ZooKeeper.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum

from sordini.broker.configuration.client_metrics_config import CLIENT_METRICS_SETTINGS, read_client_metrics
from sordini.broker.configuration.config import SETTINGS, Config, find_setting, is_password
from sordini.broker.configuration.group_config import GROUP_SETTINGS, check_group_config, unusable_settings
from sordini.broker.configuration.keys.listener_keys import LISTENER_PREFIX
from sordini.broker.configuration.keys.password_encoder_keys import PASSWORDS_MAX
from sordini.broker.configuration.keys.protection_keys import TABLE, KeyTreatment, Protection
from sordini.broker.configuration.password_encoder import PasswordEncoder
from sordini.broker.configuration.protection.protection import FAMILY, find_protection, is_static
from sordini.broker.configuration.protection.protection_defaults import DEFAULTS
from sordini.broker.configuration.renamed_keys import RENAMED, of_the_store
from sordini.broker.configuration.schema_libraries import check_schema_libraries
from sordini.broker.configuration.settings import Change, ConfigError, ValueKind, ValueRule, value_text
from sordini.broker.configuration.topic_config import (
    TOPIC_SETTINGS,
    check_topic_configs,
    default_of,
    unusable_overrides,
)
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.primitives import STRING_BYTES_MAX
from sordini.system.named_tuple import NamedTuple

# A request over the wire must not load code, change credentials or open listeners.
SECURITY_KEY = (
    r"(?s:(.*\.)?(ssl|sasl|security|password|delegation\.token)\..*"
    r"|.*\.(class|class\.name|reporters|password|secret|key))"
)


class Operation(IntEnum):
    """The operation on one key (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Edit(NamedTuple):
    """One key to change; the value is ignored if the key is deleted."""

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

    Unusable overrides that another tool wrote into the store stay, and do not prevent the change.
    """
    defaults = {key: value_text(default_of(key)) for key in TOPIC_SETTINGS}
    edited = _apply(overrides, edits, {key: known.rule for key, known in TOPIC_SETTINGS.items()}, defaults)
    touched = {edit.key for edit in edits}
    useless = {entry.key for entry in unusable_overrides(edited)} - touched
    try:
        check_topic_configs({key: text for key, text in edited.items() if key not in useless})
        check_schema_libraries({key: text for key, text in edited.items() if key in touched})
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return edited


def edit_group(overrides: Mapping[str, str], edits: Sequence[Edit], broker: Config) -> dict[str, str]:
    """A group's own settings after the edits; raises BrokerError INVALID_CONFIG.

    `broker` has the bounds. Settings in the store that nothing can use stay, and do not prevent the change.
    """
    defaults = {key: value_text(declared.inherited(broker)) for key, declared in GROUP_SETTINGS.items()}
    edited = _apply(overrides, edits, {key: known.rule for key, known in GROUP_SETTINGS.items()}, defaults)
    useless = {entry.key for entry in unusable_settings(edited)} - {edit.key for edit in edits}
    try:
        check_group_config({key: text for key, text in edited.items() if key not in useless}, broker)
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return edited


def edit_client_metrics(name: str, settings: Mapping[str, str], edits: Sequence[Edit]) -> dict[str, str]:
    """A subscription's settings after the edits; raises BrokerError INVALID_REQUEST or INVALID_CONFIG."""
    rules = {key: known.rule for key, known in CLIENT_METRICS_SETTINGS.items()}
    defaults = {key: known.default_text for key, known in CLIENT_METRICS_SETTINGS.items()}
    edited = _apply(settings, edits, rules, defaults)
    read_client_metrics(name, edited)
    return edited


def edit_broker(
    entries: Mapping[str, str], edits: Sequence[Edit], *, is_default: bool, encoder: PasswordEncoder | None = None
) -> dict[str, str]:
    """A dynamic layer of brokers' settings after the edits; raises BrokerError INVALID_REQUEST, INVALID_CONFIG.

    `is_default` is true of the layer of all brokers. Unknown keys are accepted, as in Apache Kafka: they may be for
    another broker. Keys that request protection which this broker does not have are refused. A former name of a key
    stands for the present one, which is written.
    """
    rules = {key: row.rule for key, row in TABLE.items()} | {key: one.rule for key, (_, one) in SETTINGS.items()}
    defaults = DEFAULTS | {key: known.default_text for key, (_, known) in SETTINGS.items()}
    edits = [edit._replace(key=RENAMED.get(edit.key, edit.key)) for edit in edits]
    check_edits(edits)
    edited = _apply(of_the_store(entries), edits, rules, defaults)
    for edit in edits:
        if edit.key in edited:
            takes_password = encoder is not None and encoder.can_encode
            _check_broker_key(edit.key, edited[edit.key], is_default=is_default, takes_password=takes_password)
    for key in {edit.key for edit in edits if edit.operation == Operation.SET}:
        if encoder is not None and is_password(key):
            if sum(map(is_password, edited)) > PASSWORDS_MAX:
                raise BrokerError(ErrorCode.INVALID_CONFIG, f"a broker has at most {PASSWORDS_MAX} passwords")
            edited[key] = encoder.encode(edited[key])
    return edited


def _check_broker_key(key: str, text: str, *, is_default: bool, takes_password: bool) -> None:
    known, protection = find_setting(key), find_protection(key)
    if is_static(key) or (known is not None and known.change is Change.NOWHERE):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"{key} cannot be changed while the broker runs")
    if protection is not None:
        _check_scope(key, protection.rule, protection.change, is_default=is_default, takes_password=False)
        _check_protection(key, text, protection)
    elif known is not None:
        _check_scope(key, known.rule, known.change, is_default=is_default, takes_password=takes_password)
        try:
            known.rule.read(key, text)
        except ConfigError as error:
            raise BrokerError(ErrorCode.INVALID_REQUEST, str(error)) from None
    elif is_default and key.startswith(LISTENER_PREFIX):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"{key} can be changed for one broker only, not for all")
    elif not key or re.fullmatch(SECURITY_KEY, key) or re.fullmatch(FAMILY, key.lower()):
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            f"{key} cannot be changed over the wire, only at the start",
        )


def _check_scope(key: str, rule: ValueRule, change: Change, *, is_default: bool, takes_password: bool) -> None:
    """Apache Kafka's checks and codes, and passwords only if they are encrypted."""
    if change is Change.LISTENER and not key.startswith(LISTENER_PREFIX):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"{key} can be changed only as listener.name.<name>.{key}")
    if is_default and change is not Change.ANYWHERE:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"{key} can be changed for one broker only, not for all")
    if rule.kind is ValueKind.PASSWORD and not takes_password:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG, f"{key} is not accepted: password.encoder.secret is not set, which encrypts it"
        )


def _check_protection(key: str, text: str, found: Protection) -> None:
    """The refusal of protection that this broker does not have, and of values of the wrong type."""
    if found.treatment is KeyTreatment.HARMLESS and found.rule.kind is ValueKind.CLASS:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"{key} is not accepted: this broker loads no classes")
    try:
        found.rule.read(key, text)
    except ConfigError as error:
        reason = f" ({key} asks for {found.why})" if found.treatment is KeyTreatment.REFUSED else ""
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"{error}{reason}") from None


def _apply(
    entries: Mapping[str, str],
    edits: Sequence[Edit],
    rules: Mapping[str, ValueRule],
    defaults: Mapping[str, str | None],
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


def _edit_list(key: str, operation: int, text: str, former: str, rule: ValueRule | None) -> str:
    """Append to a list or subtract from it. An unset list begins as the key's default, not as the inherited value."""
    if rule is None or rule.kind is not ValueKind.LIST:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{key} is not a list: append and subtract are not allowed")
    members, named = _members(former), dict.fromkeys(_members(text))
    if operation == Operation.APPEND:
        existing = set(members)
        edited = ",".join(members + [name for name in named if name not in existing])
    else:
        edited = ",".join(name for name in members if name not in named)
    if len(edited.encode()) > STRING_BYTES_MAX:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{key} would be longer than {STRING_BYTES_MAX} bytes")
    return edited


def _members(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
