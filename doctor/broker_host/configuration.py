"""The configuration, read as a broker reads it, and what of it is unknown or without effect."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from sordini.broker.configuration.config import SETTINGS
from sordini.broker.configuration.keys.kraft_keys import taken_over
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.process.config_loading import LoadedConfig, load_config, read_entries, resolved
from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding, Report
from sordini.protocol.printable import counted

STEP = "configuration"
NAMED_MAX = 6


def read_configuration(properties: str, environment: Mapping[str, str], report: Report) -> LoadedConfig | None:
    """The configuration that a broker would have; None where it would refuse the start."""
    try:
        entries, kraft = taken_over(resolved(read_entries(properties, (), environment), environment))
        given = load_config(entries)._replace(kraft=kraft)
    except ConfigError as error:
        reason = str(error)
        key = reason.partition("=")[0] if "=" in reason else "KEY"
        facts = {"reason": reason, "key": key}
        report.found(STEP, reason, Finding(Fault.CONFIG_INVALID, properties, facts))
        return None
    report.ok(STEP, f"{counted(len(given.explicit), 'key')} of {properties} have an effect")
    unknown = [*given.unknown, *given.config.keys_of_unknown_listeners]
    if unknown:
        meant = perhaps_meant(unknown, SETTINGS)
        line = next((f"{close}=..." for close in meant.values()), f"#{unknown[0]}=...")
        facts = {"keys": named(unknown), "line": line, "hint": _hint(meant)}
        report.found(STEP, f"unknown: {named(unknown)}", Finding(Fault.KEYS_UNKNOWN, properties, facts))
    if given.without_effect:
        facts = {"keys": named(given.without_effect), "key": given.without_effect[0]}
        report.found(STEP, f"without effect: {facts['keys']}", Finding(Fault.KEYS_IGNORED, properties, facts))
    return given


def named(keys: Sequence[str]) -> str:
    """The first of them, and how many more."""
    more = f" and {len(keys) - NAMED_MAX} more" if len(keys) > NAMED_MAX else ""
    return ", ".join(keys[:NAMED_MAX]) + more


def perhaps_meant(unknown: Sequence[str], known: Iterable[str]) -> dict[str, str]:
    """By unknown keys, the known ones that are spelt nearly like them."""
    names = list(known)
    close = {key: difflib.get_close_matches(key, names, n=1, cutoff=0.8) for key in unknown[:NAMED_MAX]}
    return {key: found[0] for key, found in close.items() if found}


def _hint(meant: Mapping[str, str]) -> str:
    if not meant:
        return "No key is spelt like them."
    return f"By the spelling, {'; '.join(f'{key} is perhaps {close}' for key, close in meant.items())}."
