"""Values with a minimum and a maximum that have keys of their own: those that single groups may have, too."""

from __future__ import annotations

from collections.abc import Sequence

from sordini.broker.configuration.settings import ConfigError
from sordini.system.named_tuple import NamedTuple


class BoundedValue(NamedTuple):
    """A whole number of groups of one kind; `name` is the common end of its keys."""

    kind: str
    name: str

    @property
    def key(self) -> str:
        return f"group.{self.kind}.{self.name}"

    @property
    def least_key(self) -> str:
        return f"group.{self.kind}.min.{self.name}"

    @property
    def most_key(self) -> str:
        return f"group.{self.kind}.max.{self.name}"

    @property
    def group_key(self) -> str:
        """The key of a single group."""
        return f"{self.kind}.{self.name}"

    def least(self, settings: object) -> int:
        return _value_of(settings, self.least_key)

    def most(self, settings: object) -> int:
        return _value_of(settings, self.most_key)

    def value(self, settings: object) -> int:
        return _value_of(settings, self.key)


def check_bounded(
    settings: object, bounded_values: Sequence[BoundedValue], session: BoundedValue, heartbeat: BoundedValue
) -> None:
    """Raise ConfigError for values outside of their bounds, and for a session that is no longer than a heartbeat."""
    for bounded in bounded_values:
        least, value, most = bounded.least(settings), bounded.value(settings), bounded.most(settings)
        if most < least:
            raise ConfigError(
                f"{bounded.most_key}={most} is not valid: allowed is at least {bounded.least_key}={least}"
            )
        if value < least:
            raise ConfigError(f"{bounded.key}={value} is not valid: allowed is at least {bounded.least_key}={least}")
        if value > most:
            raise ConfigError(f"{bounded.key}={value} is not valid: allowed is at most {bounded.most_key}={most}")
    if heartbeat.value(settings) >= session.value(settings):
        raise ConfigError(
            f"{heartbeat.key}={heartbeat.value(settings)} is not valid: allowed is less than "
            f"{session.key}={session.value(settings)}"
        )


def _value_of(settings: object, key: str) -> int:
    """The value of a key whose field is named as it is."""
    value: int = getattr(settings, key.replace(".", "_"))
    return value
