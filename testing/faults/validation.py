"""Rules that cannot mean anything are refused when they are made: the same in a test and by the control. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.served_apis import ALL_APIS, INTER_BROKER_APIS
from sordini.testing.arguments import INT32_MAX, ArgumentRefused, text, whole
from sordini.testing.faults.mentions import ASSIGNOR, GROUP, MEMBER_ID, PARTITION, TOPIC, TRANSACTIONAL_ID, mentioned
from sordini.testing.faults.names import ApiName, api_of, api_text
from sordini.testing.faults.script import Rule, RuleBook
from sordini.testing.faults.selection import Selection

TIMES_MAX: Final = 1_000_000_000
_OF_REQUESTS: Final = (TOPIC, PARTITION, GROUP, MEMBER_ID, ASSIGNOR, TRANSACTIONAL_ID)
"""What only some requests name."""
SELECTED: Final = (*_OF_REQUESTS, "client_id", "broker", "when")
"""What a rule may select by, beside the API."""


def rule(
    script: RuleBook,
    api: ApiName,
    selected: Mapping[str, Any],
    brokers: Collection[int],
    times: Any = None,
    after: Any = 0,
    made_at: str = "",
) -> Rule:
    """A rule for the requests of an API that match what is `selected`; None is any. Raises ArgumentRefused."""
    key = _client_api(api)
    given = {name: value for name, value in selected.items() if value is not None}
    for name, value in given.items():
        _CHECKS[name](name, value)
        if name in _OF_REQUESTS and name not in mentioned(key):
            raise ArgumentRefused(name, value, _allowed(key), f"{name}={value!r}: {_has_none(key, name)}")
    if "broker" in given:
        numbers = ", ".join(map(str, brokers))
        if given["broker"] not in brokers:
            raise ArgumentRefused("broker", given["broker"], f"one of the brokers: {numbers}")
    times = None if times is None else whole("times", times, 1, TIMES_MAX)
    return Rule(script, Selection(key, **given), times, whole("after", after, 0, TIMES_MAX), made_at)


def _client_api(api: ApiName) -> ApiKey:
    key = api_of(api)
    name = api_text(key)
    if key in INTER_BROKER_APIS:
        why = f"{name} is a request between brokers, which no rule touches: choose a request of clients"
        raise ArgumentRefused("api", name, "a request of clients", why)
    if key not in ALL_APIS:
        raise ArgumentRefused("api", name, "a request that is served", f"the brokers do not serve {name}")
    return key


def _condition(name: str, value: Any) -> None:
    if not callable(value) or inspect.iscoroutinefunction(value):
        raise ArgumentRefused(name, value, "a function of the request's message, which returns whether it is meant")


_CHECKS: Final[Mapping[str, Callable[[str, Any], object]]] = {
    TOPIC: text,
    PARTITION: lambda name, value: whole(name, value, 0, INT32_MAX),
    GROUP: text,
    MEMBER_ID: text,
    ASSIGNOR: text,
    TRANSACTIONAL_ID: text,
    "client_id": text,
    "broker": lambda name, value: whole(name, value, 1),
    "when": _condition,
}


def _has_none(key: ApiKey, name: str) -> str:
    return f"a request {api_text(key)} names no {name.replace('_', ' ')}; it can be selected by {_allowed(key)}"


def _allowed(key: ApiKey) -> str:
    names = [name for name in SELECTED if name not in _OF_REQUESTS or name in mentioned(key)]
    return f"{', '.join(names[:-1])} and {names[-1]}"
