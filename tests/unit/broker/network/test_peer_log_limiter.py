"""The rate limit on log lines that peers cause."""

from sordini.broker.network.peer_log_limiter import LINES_MAX, OTHERS, PERIOD_MS, TABLE_MAX, PeerLogLimiter
from tests.support.fake_ports import ListLog


def lines_of(log, event="connection closed"):
    return [fields for found, fields in log.at("warning") if found == event]


def suppressed(log):
    return [(fields["address"], fields["suppressed"], fields["count"]) for fields in lines_of(log, SUMMARY)]


SUMMARY = "peer log lines suppressed"


def test_one_address_has_a_limited_number_of_lines_of_an_event_and_then_one_with_the_count():
    log = ListLog()
    lines = PeerLogLimiter(log, 0)
    for _ in range(LINES_MAX + 90):
        lines.warning("10.0.0.1", "connection closed", reason="x")
    assert len(lines_of(log)) == LINES_MAX
    lines.tick(PERIOD_MS - 1)
    assert suppressed(log) == []
    lines.tick(PERIOD_MS)
    assert suppressed(log) == [("10.0.0.1", "connection closed", 90)]
    assert not lines, "the state of a finished period is dropped"
    lines.warning("10.0.0.1", "connection closed", reason="x")
    assert len(lines_of(log)) == LINES_MAX + 1


def test_other_addresses_and_other_events_have_lines_of_their_own():
    log = ListLog()
    lines = PeerLogLimiter(log, 0)
    for _ in range(50):
        lines.warning("10.0.0.1", "connection closed", reason="x")
    lines.warning("10.0.0.1", "another event")
    lines.warning("10.0.0.2", "connection closed", reason="y")
    assert len(lines_of(log, "another event")) == 1
    assert [fields for fields in lines_of(log) if fields["reason"] == "y"]


def test_the_table_is_bounded_and_further_addresses_share_their_lines():
    log = ListLog()
    lines = PeerLogLimiter(log, 0)
    for number in range(5 * TABLE_MAX):
        lines.warning(f"peer {number}", "connection closed")
    assert len(lines) == TABLE_MAX + 1
    assert len(lines_of(log)) == TABLE_MAX + LINES_MAX
    lines.close()
    assert suppressed(log) == [(OTHERS, "connection closed", 4 * TABLE_MAX - LINES_MAX)]
