"""Clients do not draw from the global random state, which laws of hypothesis rely on."""

from __future__ import annotations

import random

import kazoo.retry
import pytest
from kazoo.exceptions import ConnectionLoss


def test_the_pauses_of_a_client_leave_the_global_random_state_alone() -> None:
    def lost() -> None:
        raise ConnectionLoss

    before = random.getstate()
    retry = kazoo.retry.KazooRetry(max_tries=5, sleep_func=lambda _: None)
    with pytest.raises(kazoo.retry.RetryFailedError):
        retry(lost)
    assert random.getstate() == before
