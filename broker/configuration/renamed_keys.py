"""Keys of our own that had another name before release 1.0. The former spelling still works, with a warning. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sordini.broker.configuration.settings import ConfigError

RENAMED: Final[Mapping[str, str]] = {
    "sordini.cluster.pure": "sordini.cluster.exclusive",
    "sordini.connection.parked.requests.max": "sordini.connection.pending.produce.requests.max",
    "sordini.record.waiting.bytes.max": "sordini.record.workers.queue.bytes.max",
    "sordini.transactional.newest.connection.enable": "sordini.transactional.stale.connection.fencing.enable",
    "sordini.weak.acks.need.store": "sordini.leader.acks.require.session",
}
"""The present name by the former one."""


def renamed_among(keys: Iterable[str]) -> list[str]:
    """The former names among these keys."""
    return sorted(key for key in keys if key in RENAMED)


def with_present_names(entries: Mapping[str, str]) -> dict[str, str]:
    """The entries by their present names. Raises ConfigError for a key that is there by both."""
    for former in renamed_among(entries):
        if RENAMED[former] in entries:
            raise ConfigError(f"{former} is the former name of {RENAMED[former]}: allowed is one of the two")
    return {RENAMED.get(key, key): text for key, text in entries.items()}


def of_the_store(entries: Mapping[str, str]) -> dict[str, str]:
    """As `with_present_names`; of a key that is there by both names the present one counts."""
    former = {RENAMED[key]: text for key, text in entries.items() if key in RENAMED}
    return former | {key: text for key, text in entries.items() if key not in RENAMED}
