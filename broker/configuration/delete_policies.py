"""Delete policies by name: those built in, and those that installed packages bring as entry points.

The key is read at the start and cannot be changed over the wire, so that only an operator chooses the code that decides
on deletion.
"""

from __future__ import annotations

from sordini.broker.configuration.settings import ConfigError
from sordini.storage.retention import BUILT_IN, DeletePolicy

GROUP = "sordini.delete_policies"
KEY = "sordini.log.delete.policy"


def load_policies(names: str) -> tuple[DeletePolicy, ...]:
    """The policies named, comma-separated. Raises ConfigError, naming those available, when one cannot be loaded."""
    return tuple(_load(name) for name in (part.strip() for part in names.split(",")) if name)


def _load(name: str) -> DeletePolicy:
    if name in BUILT_IN:
        return BUILT_IN[name]
    from importlib.metadata import entry_points  # Late: it is slow to import.

    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        available = ", ".join([*BUILT_IN, *sorted(found)])
        raise ConfigError(f"{KEY}={name!r} is not valid: allowed are {available} (entry points of the group {GROUP})")
    entry = found[name]
    try:
        policy: DeletePolicy = entry.load()()
    except Exception as error:  # All - importing another package's module may raise anything.
        raise ConfigError(f"{KEY}={name!r} cannot be used: {entry.value} raised {error!r}") from error
    if not callable(getattr(policy, "due", None)):
        raise ConfigError(f"{KEY}={name!r} cannot be used: the object from {entry.value} has no method `due`")
    return policy
