"""The texts of a client's errors, and that they survive the way from one process to another."""

from __future__ import annotations

import pickle

import pytest

from sordini.client.errors import (
    ClientError,
    Disconnected,
    InvalidLength,
    NotABroker,
    NotServed,
    Refused,
    Unreachable,
    check,
    lost,
    only_row,
    too_late,
    with_text,
)
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.served_apis import APIS

LIST_OFFSETS = APIS[ApiKey.LIST_OFFSETS]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            Refused("topic 'a'", ErrorCode.TOPIC_ALREADY_EXISTS),
            "topic 'a': topic already exists (TOPIC_ALREADY_EXISTS)",
        ),
        (
            Refused("topic 'a'", ErrorCode.TOPIC_ALREADY_EXISTS, ""),
            "topic 'a': topic already exists (TOPIC_ALREADY_EXISTS)",
        ),
        (Refused("topic 'a'", 36, "it is there"), "topic 'a': it is there (TOPIC_ALREADY_EXISTS)"),
        (Refused("topic 'a'", 9_999), "topic 'a': error 9999 (error 9999)"),
        (NotServed("h:1", LIST_OFFSETS, 0, -1), "h:1 does not serve ListOffsets requests"),
        (
            NotServed("h:1", LIST_OFFSETS, 1, 3),
            "h:1 knows versions 1 to 3 of ListOffsets requests, which is not enough",
        ),
        (lost("h:1"), "h:1 closed the connection before it answered"),
        (
            lost("h:1", ConnectionResetError(104, "Connection reset by peer")),
            "h:1 closed the connection before it answered (connection reset by peer)",
        ),
        (too_late("h:1", 0.5), "h:1 gave no answer within 0.5 s"),
        (InvalidLength("h:1", 9, 8, b"HTTP"), "h:1 sent a response of 9 bytes, the limit is 8"),
    ],
)
def test_the_text_names_the_broker_what_is_wrong_and_the_code_to_search_for(error: ClientError, text: str) -> None:
    assert str(error) == text


def test_a_code_that_is_unknown_here_is_an_unknown_error() -> None:
    assert Refused("x", 9_999).code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert Refused("x", 36).code is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    "error",
    [NotServed("h:1", LIST_OFFSETS, 1, 3), InvalidLength("h:1", 9, 8, b"HTTP"), Refused("x", 36), Disconnected("y")],
)
def test_errors_can_be_pickled_and_given_another_text(error: ClientError) -> None:
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied), vars(copied)) == (type(error), str(error), vars(error))
    changed = with_text(error, "other")
    assert (type(changed), str(changed), vars(changed)) == (type(error), "other", vars(error))
    assert str(error) != "other"


def test_that_nothing_answers_and_that_nothing_was_answered_are_kinds_of_unreachable() -> None:
    for kind in (Disconnected, InvalidLength, NotABroker):
        assert issubclass(kind, Unreachable)
    assert not issubclass(NotServed, Unreachable)


def test_a_code_is_checked_and_a_response_has_one_row() -> None:
    check("x", ErrorCode.NONE)
    with pytest.raises(Refused, match=r"x: not controller \(NOT_CONTROLLER\)"):
        check("x", ErrorCode.NOT_CONTROLLER)
    assert only_row([7], "x") == 7
    for rows in ([], [1, 2]):
        with pytest.raises(ClientError, match=f"has {len(rows)} rows for x instead of one"):
            only_row(rows, "x")
