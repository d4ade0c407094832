"""What must hold of unauthorized requests: I18. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.cluster.chaos.events import History


def unauthorized_requests(history: History) -> Iterator[str]:
    """I18: no request without TLS, a login and rights is served. A record of one would be a phantom of I11."""
    for one in history.trieds:
        if one.code == 0:
            yield f"I18 a request {one.way} was served: {one.what}"


def refusals(history: History) -> Counter[str]:
    """How often each way was refused."""
    return Counter(one.way for one in history.trieds if one.code != 0)
