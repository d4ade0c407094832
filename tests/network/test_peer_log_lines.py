"""Log lines that peers cause through real connections."""

from sordini.broker.network.peer_log_limiter import LINES_MAX, PERIOD_MS
from tests.support.socket_bench import Bench, is_closed, send


def closed_lines(log):
    return [fields for event, fields in log.at("warning") if event == "connection closed"]


def suppressed(log):
    found = [fields for event, fields in log.at("warning") if event == "peer log lines suppressed"]
    return [(fields["address"], fields["suppressed"], fields["count"]) for fields in found]


async def test_the_lines_of_a_peer_that_floods_bad_frames_are_counted():
    async with Bench() as bench:
        for _ in range(LINES_MAX + 5):
            client = await bench.connect()
            await send(client, b"GET / HTTP/1.1\r\n\r\n")
            assert await is_closed(client)
        assert len(closed_lines(bench.log)) == LINES_MAX
        await bench.pass_time(PERIOD_MS + 1000)
        assert suppressed(bench.log) == [("127.0.0.1", "connection closed", 5)]


async def test_faults_of_the_broker_are_logged_each_time():
    async with Bench() as bench:
        for tag in range(LINES_MAX + 5):
            bench.service.answers[tag] = RuntimeError("a bug")
            client = await bench.connect()
            await send(client, b"\x00\x00\x00\x06\x00\x03" + tag.to_bytes(4))
            assert await is_closed(client)
        assert len(bench.log.at("error")) == LINES_MAX + 5
