"""The file of a mirror: read, checked, and turned into a Plan. docs/mirror.md lists its settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from sordini.admin.failure import Failure
from sordini.broker.configuration.settings import ConfigError
from sordini.cli.common.security_file import read_client_security
from sordini.cli.common.settings_tree import Section, SettingsFileError, read_tree
from sordini.client.addresses import Address, parse_bootstrap
from sordini.client.security import PLAINTEXT, ClientSecurity
from sordini.client.sockets import connect_with
from sordini.mirror.naming import Naming, Selection
from sordini.mirror.plan import (
    EXCLUDED_CONFIGS,
    EXCLUDED_GROUPS,
    Access,
    Delivery,
    Plan,
    Source,
    Start,
    SyncsIn,
    patterns,
)
from sordini.protocol.topic_names import topic_name_error

_ALIAS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_SEPARATORS: Final = frozenset("._-")


def read_mirror_file(path: Path, environment: Mapping[str, str]) -> Plan:
    """Read a mirror's file. Raises Failure, with the file, the line and the setting that is wrong."""
    try:
        return _plan(Section(path, read_tree(path), "", environment), path.resolve().parent)
    except SettingsFileError as error:
        raise Failure(str(error)) from None


def _plan(top: Section, home: Path) -> Plan:
    target = top.section("target")
    alias = target.text("alias")
    _check_alias(target, "alias", alias)
    access = _access(target, alias, home)
    target.finish()
    sources = tuple(_sources(top.section("sources"), home, alias))
    if not sources:
        top.wrong("sources", "is missing: one section for each cluster to copy from, by its alias")
    separator = _separator(top)
    if separator in alias:
        target.wrong("alias", f"is {alias!r}, which has the separator {separator!r} in it")
    for source in sources:
        if separator in source.access.alias:
            top.section("sources").wrong(source.access.alias, f"has the separator {separator!r} in it")
    topics, groups = top.section("topics"), top.section("groups")
    plan = Plan(
        name=_name(top),
        target=access,
        sources=sources,
        naming=top.choice("naming", Naming.PREFIX),
        separator=separator,
        delivery=top.choice("delivery", Delivery.EXACTLY_ONCE),
        commit_s=_seconds(top, "commit_interval", "500 milliseconds"),
        refresh_s=_seconds(topics, "refresh_interval", "30 seconds"),
        sync_configs=topics.truth("sync_configs", default=True),
        excluded_configs=_patterns(topics, "exclude_configs", EXCLUDED_CONFIGS),
        replication_factor=topics.whole("replication_factor", -1) if "replication_factor" in topics else -1,
        groups_s=_seconds(groups, "interval", "10 seconds"),
        sync_group_offsets=groups.truth("sync_offsets", default=False),
        heartbeat_s=_heartbeat(top.section("heartbeats")),
        syncs_in=top.choice("offset_syncs", SyncsIn.TARGET),
        metrics=top.take("metrics", _metrics) if "metrics" in top else None,
    )
    for section in (topics, groups, top):
        section.finish()
    return plan


def _name(top: Section) -> str:
    name = top.text("name")
    _check_alias(top, "name", name)
    return name


def _sources(section: Section, home: Path, target: str) -> list[Source]:
    found = []
    for alias in section.names():
        inner = section.section(alias)
        _check_alias(section, alias, alias)
        if alias == target:
            section.wrong(alias, f"has the alias of the target: {alias}; each cluster needs one of its own")
        source = Source(
            access=_access(inner, alias, home),
            topics=Selection(_patterns(inner, "topics", (".*",)), _patterns(inner, "exclude_topics", ())),
            groups=Selection(_patterns(inner, "groups", (".*",)), _patterns(inner, "exclude_groups", EXCLUDED_GROUPS)),
            start=inner.choice("start", Start.EARLIEST),
        )
        inner.finish()
        found.append(source)
    return found


def _access(section: Section, alias: str, home: Path) -> Access:
    bootstrap: list[Address] = section.take("bootstrap", parse_bootstrap)
    security = PLAINTEXT
    if "command_config" in section:
        security = section.take("command_config", lambda written: _security(home / written))
    return Access(alias, tuple(bootstrap), partial(connect_with, security.tls), security.sasl)


def _security(path: Path) -> ClientSecurity:
    """Raises ValueError."""
    try:
        return read_client_security(str(path))
    except ConfigError as error:
        raise ValueError(str(error)) from None
    except OSError as error:
        raise ValueError(f"it cannot be read: {(error.strerror or str(error)).lower()}") from None


def _check_alias(section: Section, name: str, written: str) -> None:
    if not _ALIAS.fullmatch(written):
        section.wrong(name, f"is {written!r}: up to 80 letters, digits, - and _ are allowed")


def _separator(top: Section) -> str:
    written = top.text("separator", ".")
    if topic_name_error(f"a{written}b") or not set(written) <= _SEPARATORS:
        top.wrong("separator", f"is {written!r}: '.', '_' and '-' are allowed")
    return written


def _patterns(section: Section, name: str, default: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    texts = section.texts(name) if name in section else default
    for text in texts:
        try:
            re.compile(text)
        except re.error as error:
            section.wrong(name, f"has {text!r}, which is no regular expression: {error}")
    return patterns(texts)


def _seconds(section: Section, name: str, default: str) -> float:
    return section.interval(name, default).seconds


def _heartbeat(section: Section) -> float:
    """The interval; 0 when they are switched off."""
    is_on = section.truth("enabled", default=True)
    seconds = _seconds(section, "interval", "1 second")
    section.finish()
    return seconds if is_on else 0.0


def _metrics(written: str) -> Address:
    """HOST:PORT, where port 0 is any. Raises ValueError."""
    host, colon, port = written.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ValueError("it is not HOST:PORT")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))
