"""The configuration of a process: read from a file, the environment and the command line, and what of it is ignored."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Final

from sordini.broker.configuration.config import SETTINGS, Config, build_config
from sordini.broker.configuration.config_providers import ProviderSources, resolve_providers
from sordini.broker.configuration.environment import environment_entries, unknown_names
from sordini.broker.configuration.properties_file import decode_properties, read_properties
from sordini.broker.configuration.protection.open_listeners import open_listeners
from sordini.broker.configuration.protection.protection import is_without_effect
from sordini.broker.configuration.renamed_keys import RENAMED, renamed_among, with_present_names
from sordini.broker.configuration.settings import ConfigError, ProvidedText
from sordini.broker.process.logging import ProcessLogger
from sordini.broker.security.sasl.first_user import FirstUser
from sordini.storage.disk import SystemDisk
from sordini.system.named_tuple import NamedTuple

SHOWN_CHARS_MAX: Final = 4
"""Shorter parts of a provided value are looked for only in errors that name its key."""
_KEY: Final = re.compile(r"[\w.-]+")


class LoadedConfig(NamedTuple):
    """A configuration and how it was given."""

    config: Config
    explicit: frozenset[str]
    """The keys that were set."""
    unknown: list[str]
    """Unknown keys, and variables of the environment that look like keys and are unknown."""
    without_effect: list[str]
    """Keys of Apache Kafka that were set and have no effect here."""
    first_user: FirstUser | None = None
    """Of a broker that secures itself."""
    notes: tuple[str, ...] = ()
    """What such a broker logs at its start."""
    kraft: Mapping[str, str] = {}
    """What was taken over of a configuration for KRaft mode."""
    renamed: Sequence[str] = ()
    """Keys that were given by a former name."""


def read_entries(properties: str | None, overrides: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Key and text of every entry; overrides before the environment before the file. Raises ConfigError."""
    entries: dict[str, str] = {}
    if properties is not None:
        disk = SystemDisk()
        try:
            file = disk.open(properties, writable=False)
        except OSError as error:
            raise ConfigError(f"{properties}: {error.strerror}") from None
        try:
            entries.update(read_properties(decode_properties(file.read_at(0, file.size()))))
        except ConfigError as error:
            raise ConfigError(f"{properties}: {error}") from None
        finally:
            file.close()
    entries.update(environment_entries(environment))
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"--override {override!r} is not valid: allowed is KEY=VALUE")
        entries[key.strip()] = text
    return entries


def resolved(entries: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Entries with the values of their config providers. Raises ConfigError."""
    disk = SystemDisk()

    def read(path: str, size: int) -> bytes:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - pathlib costs a start 3 ms.
            raise OSError(errno.EINVAL, "it is no regular file")
        file = disk.open(path, writable=False)
        try:
            return file.read_at(0, size)
        finally:
            file.close()

    return resolve_providers(entries, ProviderSources(read, environment))


def without_provided(error: ConfigError, entries: Mapping[str, str]) -> ConfigError:
    """The error, or one with less text if it shows a part of what a config provider has read."""
    text = str(error).lower()
    for key, value in entries.items():
        if isinstance(value, ProvidedText):
            parts = [part for part in re.split(r"[\s,;:=]+", value.lower()) if part]
            if any(part in text and (len(part) >= SHOWN_CHARS_MAX or key in text) for part in parts):
                return ConfigError(f"{key}=(hidden) is not valid; no more is shown of what a config provider has read")
    return error


def load_config(entries: Mapping[str, str]) -> LoadedConfig:
    """The configuration that entries make. Raises ConfigError, which shows no value of a config provider."""
    try:
        config, unknown = build_config(entries)
    except ConfigError as error:
        raise without_provided(error, entries) from None
    return LoadedConfig(
        config,
        frozenset(with_present_names(entries)) & SETTINGS.keys(),
        [_shown_key(key, entries[key]) for key in unknown] + unknown_names(os.environ),
        sorted(filter(is_without_effect, entries)),
        renamed=renamed_among(entries),
    )


def _shown_key(key: str, text: str) -> str:
    """An unknown key for the log, unless the line looks like the rest of a value whose line ends too early.

    That may be a part of a password or of a private key: it has no value, or blanks and signs that no key has.
    """
    return key if text.strip("=") and _KEY.fullmatch(key) else "(hidden: a line that is no key=value)"


def with_absolute_paths(given: LoadedConfig) -> LoadedConfig:
    """The same with absolute paths."""
    directories = [os.path.abspath(path) for path in given.config.log_directories]  # noqa: PTH100 - text, as configured.
    cordoned = [os.path.abspath(path) for path in given.config.cordoned_directories]  # noqa: PTH100
    config = dataclasses.replace(
        given.config,
        log_dirs=",".join(directories),
        cordoned_log_dirs=",".join(sorted(cordoned)),
        audit_log_file=given.config.audit_log_file and os.path.abspath(given.config.audit_log_file),  # noqa: PTH100
    )
    return given._replace(config=config)


def log_configuration(given: LoadedConfig, log: ProcessLogger) -> None:
    """Log what an operator should know of a configuration before the broker starts."""
    log_ignored_keys(given, log)
    log_open_listeners(given.config, log)
    for note in given.notes:
        log.warning("secured broker", note=note)


def log_ignored_keys(given: LoadedConfig, log: ProcessLogger) -> None:
    """Log the keys that are unknown or have no effect."""
    if given.kraft:
        log.warning("KRaft configuration taken over, by a broker without KRaft (docs/kraft.md)", **given.kraft)
    for key in given.renamed:
        log.warning("configuration key has a new name", key=key, now=RENAMED[key])
    for key in given.unknown:
        log.warning("unknown configuration key", key=key)
    for key in given.config.keys_of_unknown_listeners:
        log.warning("configuration key of a listener that is not in listeners", key=key)
    if given.config.is_format_overruled:
        log.warning(
            "configuration key ignored: the message format is 2 with inter.broker.protocol.version 3.0 or newer",
            key="log.message.format.version",
        )
    if given.without_effect:
        log.info("configuration keys without effect", keys=", ".join(given.without_effect))


def log_open_listeners(config: Config, log: ProcessLogger) -> None:
    """Warn, in one line, of listeners without access control."""
    if not (found := open_listeners(config)):
        return
    without_login = any(one.protocol == "PLAINTEXT" for one in found)
    log.warning(
        "OPEN TO THE NETWORK: every client may read, write and administer, without TLS and without a login"
        if without_login
        else "OPEN TO THE NETWORK: logins are sent without TLS, and every user may read, write and administer",
        listeners=", ".join(map(str, found)),
        remedy="sordini serve --secure, docs/security.md, or listen on 127.0.0.1",
    )


def choose_loop(config: Config) -> type[asyncio.AbstractEventLoop] | None:
    """The loop to run on: uvloop where it is installed, unless the configuration says otherwise."""
    if config.event_loop != "asyncio":
        try:
            import uvloop  # Late: an optional library on some platforms.
        except ImportError:
            if config.event_loop == "uvloop":
                raise ConfigError("sordini.event.loop='uvloop' is not valid here: uvloop is not installed") from None
        else:
            return uvloop.Loop
    return asyncio.SelectorEventLoop
