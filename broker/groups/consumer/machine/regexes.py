"""Subscriptions by regular expression: they are resolved beside the step, and their topics count once that is done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sordini.broker.groups.consumer.machine.events import EpochCause, RegexesResolved, ResolveRegexes
from sordini.broker.groups.consumer.machine.target import follow_topics
from sordini.broker.groups.consumer.machine.transition import ConsumerTransition
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause

REGEXES_NAMED_MAX: Final = 5
"""In the cause of a rebalance."""


def follow_regex(transition: ConsumerTransition, former: str | None, current: str | None) -> bool:
    """A member has been updated: resolve its regular expression if need be, and drop the former one.

    Returns whether the member has other topics now, as far as they are known.
    """
    if current and current not in transition.regexes:
        resolve(transition, {current})
    if former == current:
        return False
    drop_unused(transition, (former,))
    return not current or current in transition.regexes


def drop_unused(transition: ConsumerTransition, regexes: Iterable[str | None]) -> None:
    """Forget those of the regular expressions to which no member subscribes any more."""
    known = dict.fromkeys(regex for regex in regexes if regex and regex in transition.regexes)
    if known:
        used = _used(transition)
        for regex in known:
            if regex not in used:
                transition.put_regex(regex, None)


def resolve(transition: ConsumerTransition, regexes: Iterable[str]) -> None:
    """Have regular expressions resolved, unless that is under way."""
    wanted = frozenset(regexes) - transition.resolving
    if wanted:
        transition.resolving |= wanted
        transition.actions.append(ResolveRegexes(wanted))


def resolve_again(transition: ConsumerTransition) -> None:
    """Topics have changed, or may have without a sign of it: what a member may see changes, too."""
    settings = transition.around.settings
    transition.regexes_due_ms = transition.around.now.monotonic_ms + settings.regex_refresh_interval_ms
    resolve(transition, transition.regexes)


def resolved(transition: ConsumerTransition, event: RegexesResolved) -> None:
    """Regular expressions are resolved, for the first time or again. Those without subscribers are dropped."""
    transition.resolving -= event.topics.keys()
    used = _used(transition)
    changed: list[str] = []
    for regex, found in event.topics.items():
        former = transition.regexes.get(regex)
        if regex in used and (former is None or former.topics != found.topics):
            transition.put_regex(regex, found)
            changed.append(regex)
    if changed:
        detail = " ".join(sorted(changed)[:REGEXES_NAMED_MAX])
        cause = EpochCause(RebalanceCause.REGEX_RESOLVED, "regular expressions match other topics", detail=detail)
        follow_topics(transition, None, cause)
    else:
        follow_topics(transition, None)


def _used(transition: ConsumerTransition) -> set[str | None]:
    return {member.subscribed_regex for member in transition.members.values()}
