"""How descriptors are divided."""

import pytest

from sordini.broker.network.descriptors import OTHER_FILES, shares_of
from sordini.storage.open_files import pinned_beyond


@pytest.mark.parametrize("limit", [64, 256, 1024, 4096, 524_288])
@pytest.mark.parametrize("brokers", [1, 3])
def test_logs_and_connections_together_never_have_more_than_there_are(limit: int, brokers: int) -> None:
    shares = shares_of(limit, 4096, brokers)
    others = min(OTHER_FILES, limit // 2)
    used = brokers * (shares.log_files + pinned_beyond(shares.log_files) + shares.connections)
    assert used <= limit - others
    assert shares.log_files <= 4096
    assert shares.connections >= shares.log_files, "neither starves"


def test_where_there_are_many_logs_have_as_many_as_is_configured() -> None:
    assert shares_of(524_288, 4096).log_files == 4096
