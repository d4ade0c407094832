"""Rules in front of handlers: what a peer may not do is taken out of its request, and refused in the response.

    request --> rule --> handler, with what is allowed --> response --> with rows for what was refused
                 '--> the response alone, when nothing is left, or an error for the whole request

So no handler knows of authorization. A rule changes the call's body, and gives the call an `amend` that adds the
refused rows to the response, however that is made: at once, in slices, or later. The rows are those that the handler's
own `error_response` makes of the refused part.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import GeneratorType
from typing import Any, Protocol

from sordini.broker.network.ports import Peer
from sordini.broker.requests.call import AuthorizationRule, Call, LongCall, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.access import Access
from sordini.broker.security.audit.denials import Denials
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, TopicId
from sordini.system.named_tuple import NamedTuple


class KnownTopics(Protocol):
    """The topics that this broker knows; a `MetadataCache` is one."""

    @property
    def topics(self) -> Mapping[str, Any]:
        """By name."""

    def name_of(self, topic_id: TopicId) -> str | None:
        """None for an id that is unknown."""

    def unknown_topic_code(self, name: str) -> ErrorCode:
        """The code for a topic that is not among `topics`."""


class RuleDeps(NamedTuple):
    """What rules decide by."""

    access: Access
    metadata: KnownTopics
    creates_topics: bool
    """Whether a Metadata request creates topics (`auto.create.topics.enable`)."""


def authorized(routes: Iterable[Route], deps: RuleDeps, itself: Peer) -> list[Route]:
    """The same routes with their rules in front. `itself` is the peer of this broker's own requests to itself."""
    guarded = []
    for route in routes:
        handle = route.handle if route.rule is None else partial(_authorized, route.rule, route, deps, itself)
        guarded.append(route._replace(handle=handle))
    return guarded


def _authorized(rule: AuthorizationRule, route: Route, deps: RuleDeps, itself: Peer, call: Call) -> Any:
    if call.peer is itself:
        return route.handle(call)
    steps, denials = rule.check(call, deps), deps.access.denials
    if type(call) is LongCall:
        return _in_steps(steps if denials is None else _reported(steps, call, denials), route, call)
    try:
        response = _run_all_steps(steps)
    finally:
        if denials is not None and denials.noted:
            denials.report(call)
    return route.handle(call) if response is None else response


def _reported(steps: Work[Any], call: Call, denials: Denials) -> Work[Any]:
    """The same steps; what one of them is denied is reported before any other request is served."""
    while True:
        try:
            made = next(steps)
        except StopIteration as end:
            return end.value
        finally:
            if denials.noted:
                denials.report(call)
        yield made


def _in_steps(steps: Work[Any], route: Route, call: Call) -> Work[Any]:
    response = yield from steps
    if response is not None:
        return response
    answer = route.handle(call)
    if type(answer) is GeneratorType:
        answer = yield from answer
    return answer


def _run_all_steps(steps: Work[Any]) -> Any:
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value


def error_response(call: Call, request: Any, code: ErrorCode) -> Any:
    """The response of the call's handler to a request that is refused as a whole."""
    return call.versioned_api.route.error_response(request, code)


def split(elements: Sequence[Any], is_allowed: Callable[[Any], bool]) -> Work[tuple[list[Any], list[Any]]]:
    """The elements that are allowed, and those that are not."""
    allowed: list[Any] = []
    refused: list[Any] = []
    for element in elements:
        (allowed if is_allowed(element) else refused).append(element)
        yield 1
    return allowed, refused


def name_of(topic: Any, metadata: KnownTopics) -> str | None:
    """A topic's name as a request gives it, by name or by id; None for an id that is unknown."""
    topic_id = getattr(topic, "topic_id", NO_TOPIC_ID)
    if topic_id != NO_TOPIC_ID:
        return metadata.name_of(TopicId(topic_id))
    name: str | None = topic.topic if hasattr(topic, "topic") else topic.name
    return name


def refuse_part(
    call: Call,
    field: str,
    allowed: list[Any],
    refused: list[Any],
    *,
    code: ErrorCode,
    rows: str,
    is_all: bool = True,
) -> Any:
    """Leave the allowed elements of a request's field, and have the others refused.

    `rows` is the field of the response with a row for each element. Returns the response when nothing is left;
    `is_all` is false when the request asks for more than the field says.
    """
    if not refused:
        return None
    part = copy.copy(call.body)
    setattr(part, field, refused)
    refusal = error_response(call, part, code)
    if not allowed and is_all:
        return refusal
    setattr(call.body, field, allowed)
    add_rows(call, rows, getattr(refusal, rows))
    return None


def add_rows(call: Call, field: str, rows: Iterable[Any]) -> None:
    """Have rows added to a field of the response."""
    found, former = list(rows), call.amend

    def amend(message: Any) -> Any:
        if former is not None:
            message = former(message)
        setattr(message, field, [*getattr(message, field), *found])
        return message

    call.amend = amend
