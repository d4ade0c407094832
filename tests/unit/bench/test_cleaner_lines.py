"""What the benchmark reads out of the brokers' logs."""

from __future__ import annotations

import io

from bench import cleaner_lines
from bench.cleaner_lines import Cleaning
from sordini.broker.process.logging import make_logger
from sordini.broker.wiring.log_cleaner import CleanerLog
from tests.support.compacted_logs import Compacting

BEGINNING = "[2026-11-21 23:59:59,900] INFO Cleaner 0: Beginning cleaning of log c-0 (kafka.log.LogCleaner)\n"
MAPPED = "[2026-11-22 00:00:00,000] INFO Cleaner 0: Offset map for log c-0 complete. (kafka.log.LogCleaner)\n"
DONE = """[2026-11-22 00:00:01,150] INFO [kafka-log-cleaner-thread-0]:
\tLog cleaner thread 0 cleaned log c-0 (dirty section = [7, 41265])
\t1,003.0 MB of log processed in 1.3 seconds (771.5 MB/sec).
\tIndexed 1,003.0 MB in 0.3 seconds (11.4 Mb/sec, 56.0% of total time)
\tBuffer utilization: 0.4%
\tCleaned 1,003.0 MB in 0.2 seconds (14.5 Mb/sec, 44.0% of total time)
\tStart size: 1,003.0 MB (1,041,265 messages)
\tEnd size: 1.7 MB (20,210 messages)
\t43.5% size reduction (51.0% fewer messages)
 (kafka.log.LogCleaner)
"""
FOUND = Cleaning("c-0", 41_265, 1.25, 1_041_265, 20_210)


def test_a_pass_of_apache_kafka_is_timed_from_its_first_line_to_its_last() -> None:
    assert cleaner_lines.read(BEGINNING + MAPPED + DONE) == [FOUND]


def test_a_pass_that_has_not_ended_is_none() -> None:
    assert cleaner_lines.read(BEGINNING + MAPPED) == []
    assert cleaner_lines.read(BEGINNING + MAPPED + DONE.partition("\tEnd size")[0]) == []


def test_a_pass_that_was_given_up_is_not_mixed_with_the_next() -> None:
    given_up = BEGINNING.replace("23:59:59", "23:50:00")
    assert cleaner_lines.read(given_up + BEGINNING + DONE) == [FOUND]
    other = (BEGINNING + DONE).replace("c-0", "other-3")
    found = cleaner_lines.read(other + BEGINNING + MAPPED + DONE + BEGINNING)
    assert [one.partition for one in found] == ["other-3", "c-0"]


async def test_our_own_line_is_read_as_it_is_written() -> None:
    store = Compacting()
    await store.filled("a1 b1|c1", "a2 d1|b2", "a3 e1", "f1")
    await store.cleaner.clean_once()
    (run,) = store.reported.runs
    lines = io.StringIO()
    lines_of_the_broker = CleanerLog(make_logger("info", lines))
    lines_of_the_broker.discarded(run.log, "log cleaned partition=another")
    lines_of_the_broker.cleaned(run)
    (found,) = cleaner_lines.read(lines.getvalue())
    assert found.partition == run.log.directory.rpartition("/")[2]
    assert (found.until, found.records_before, found.records_after) == (8, 8, 5)
    assert found.seconds == 0.0
