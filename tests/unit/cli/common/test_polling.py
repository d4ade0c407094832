"""`--wait`: a command looks again until it is so, and ends with what it saw last."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.cli.common.options import Client
from sordini.cli.common.polling import after_wait_text, poll_until
from sordini.client.errors import ClientError, NotServed, Refused, Unreachable
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.served_apis import APIS

UNREACHABLE_CLIENT = Client("127.0.0.1:1", as_json=False, timeout_s=5.0)
MOMENT_S = 0.01


class Looks:
    """What one look after the other finds: a number, or an error; the last again and again."""

    def __init__(self, *found: int | ClientError) -> None:
        self.count = 0
        self._found = self._one_after_another(found)

    def _one_after_another(self, found: tuple[int | ClientError, ...]) -> Iterator[int | ClientError]:
        yield from found
        while True:
            yield found[-1]

    async def __call__(self, cluster: ClusterClient) -> int:
        self.count += 1
        outcome = next(self._found)
        if isinstance(outcome, ClientError):
            raise outcome
        return outcome


def until(wait_s: float, looks: Looks) -> int:
    return poll_until(UNREACHABLE_CLIENT, wait_s, looks, lambda found: found == 0)


def test_without_a_wait_there_is_one_look() -> None:
    looks = Looks(3, 0)
    assert (until(0.0, looks), looks.count) == (3, 1)


def test_what_is_so_at_once_is_not_waited_for() -> None:
    looks = Looks(0)
    assert (until(3600.0, looks), looks.count) == (0, 1)


def test_a_wait_looks_again_and_ends_with_what_was_found_last() -> None:
    looks = Looks(3, 2)
    assert (until(MOMENT_S, looks), looks.count) == (2, 2)


def test_a_cluster_that_cannot_be_asked_is_asked_again() -> None:
    looks = Looks(Unreachable("no answer"), 0)
    assert (until(MOMENT_S, looks), looks.count) == (0, 2)


def test_a_wait_in_vain_for_a_cluster_that_cannot_be_asked_says_why() -> None:
    looks = Looks(3, Failure("gave up"))
    with pytest.raises(Failure, match="gave up"):
        until(MOMENT_S, looks)
    assert looks.count == 2


@pytest.mark.parametrize(
    "refusal",
    [Refused("topic x", ErrorCode.INVALID_TOPIC_EXCEPTION), NotServed("h:1", APIS[ApiKey.FETCH], 0, -1)],
)
def test_a_refusal_ends_the_wait_at_once(refusal: ClientError) -> None:
    looks = Looks(refusal)
    with pytest.raises(type(refusal)):
        until(3600.0, looks)
    assert looks.count == 1


def test_only_a_wait_is_named_in_what_follows() -> None:
    assert (after_wait_text(0.0), after_wait_text(0.5), after_wait_text(600.0)) == ("", " after 0.5 s", " after 600 s")
