"""Delete policies by name: those built in, and those that installed packages bring as entry points.

Only who can install packages and write server.properties chooses what code decides over deletion: the key is read at
the start, and nobody sets it over the wire.
"""

from __future__ import annotations

from sordini.broker.configuration.settings import ConfigError
from sordini.storage.retention import BUILT_IN, DeletePolicy

GROUP = "sordini.delete_policies"
KEY = "sordini.log.delete.policy"


def load_policies(names: str) -> tuple[DeletePolicy, ...]:
    """The policies named, comma-separated. Raises ConfigError, saying what there is, when one cannot be had."""
    return tuple(_load(name) for name in (part.strip() for part in names.split(",")) if name)


def _load(name: str) -> DeletePolicy:
    if name in BUILT_IN:
        return BUILT_IN[name]
    from importlib.metadata import entry_points  # Late: it costs more than the rest of the start's imports of ours.

    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        there = ", ".join([*BUILT_IN, *sorted(found)])
        raise ConfigError(f"{KEY}={name!r} is not valid: allowed are {there} (entry points of the group {GROUP})")
    value = found[name].value
    try:
        policy = found[name].load()()
    except Exception as error:  # All - importing somebody else's module may raise anything.
        raise ConfigError(f"{KEY}={name!r} cannot be used: {value} raised {error!r}") from error
    if not callable(getattr(policy, "due", None)):
        raise ConfigError(f"{KEY}={name!r} cannot be used: what {value} makes has no method `due`")
    chosen: DeletePolicy = policy
    return chosen
