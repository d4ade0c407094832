"""How many log lines peers may cause."""

from sordini.broker.network.peer_log_limiter import LINES_MAX, OTHERS, PERIOD_MS, TABLE_MAX, PeerLines
from tests.support.fake_ports import Bench, ListLog, is_closed, send


def lines_of(log, event="connection closed"):
    return [fields for found, fields in log.at("warning") if found == event]


def left_out(log):
    return [(fields["address"], fields["left_out"], fields["count"]) for fields in lines_of(log, SUMMARY)]


SUMMARY = "log lines of a peer left out"


def test_one_address_has_so_many_lines_of_an_event_and_then_one_with_the_count():
    log = ListLog()
    lines = PeerLines(log, 0)
    for _ in range(LINES_MAX + 90):
        lines.warning("10.0.0.1", "connection closed", reason="x")
    assert len(lines_of(log)) == LINES_MAX
    lines.tick(PERIOD_MS - 1)
    assert left_out(log) == []
    lines.tick(PERIOD_MS)
    assert left_out(log) == [("10.0.0.1", "connection closed", 90)]
    assert not lines, "nothing is kept of a period that is over"
    lines.warning("10.0.0.1", "connection closed", reason="x")
    assert len(lines_of(log)) == LINES_MAX + 1


def test_other_addresses_and_other_events_have_lines_of_their_own():
    log = ListLog()
    lines = PeerLines(log, 0)
    for _ in range(50):
        lines.warning("10.0.0.1", "connection closed", reason="x")
    lines.warning("10.0.0.1", "another event")
    lines.warning("10.0.0.2", "connection closed", reason="y")
    assert len(lines_of(log, "another event")) == 1
    assert [fields for fields in lines_of(log) if fields["reason"] == "y"]


def test_the_table_is_bounded_and_further_addresses_share_their_lines():
    log = ListLog()
    lines = PeerLines(log, 0)
    for number in range(5 * TABLE_MAX):
        lines.warning(f"peer {number}", "connection closed")
    assert len(lines) == TABLE_MAX + 1
    assert len(lines_of(log)) == TABLE_MAX + LINES_MAX
    lines.close()
    assert left_out(log) == [(OTHERS, "connection closed", 4 * TABLE_MAX - LINES_MAX)]


async def test_a_peer_that_sends_bad_frames_without_end_has_its_lines_counted():
    async with Bench() as bench:
        for _ in range(LINES_MAX + 5):
            client = await bench.connect()
            await send(client, b"GET / HTTP/1.1\r\n\r\n")
            assert await is_closed(client)
        assert len(lines_of(bench.log)) == LINES_MAX
        await bench.pass_time(PERIOD_MS + 1000)
        assert left_out(bench.log) == [("127.0.0.1", "connection closed", 5)]


async def test_faults_of_the_broker_are_told_each_time():
    async with Bench() as bench:
        for tag in range(LINES_MAX + 5):
            bench.service.answers[tag] = RuntimeError("a bug of ours")
            client = await bench.connect()
            await send(client, b"\x00\x00\x00\x06\x00\x03" + tag.to_bytes(4))
            assert await is_closed(client)
        assert len(bench.log.at("error")) == LINES_MAX + 5
