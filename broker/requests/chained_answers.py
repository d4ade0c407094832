"""A pending answer that is answered by another one: a handler's, behind the one that the connection knows."""

from __future__ import annotations

from sordini.broker.network.ports import Pending


def hand_over(inner: Pending, outer: Pending) -> None:
    """What answers `inner` answers `outer`, which its connection knows."""
    if outer.abandoned:
        inner.abandon()
    elif inner.is_answered:
        outer.resolve(inner.parts)
    else:
        outer.on_abandon = inner.abandon
        inner.on_failure = outer.on_failure
        if inner.holds:
            inner.attach(lambda: _pass_on(inner, outer))
        else:
            outer.let_go()
            inner.attach(lambda: outer.resolve(inner.parts))


def _pass_on(inner: Pending, outer: Pending) -> None:
    """What holds has let go, or is answered."""
    if inner.is_answered:
        outer.resolve(inner.parts)
    elif not inner.holds:
        outer.let_go()
