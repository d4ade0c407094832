"""What a broker's log says of each log that its cleaner has been through: Apache Kafka's lines, and ours."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple


class Cleaning(NamedTuple):
    """One pass of a cleaner over a partition, as its log line reports it.

    until: the first offset it left alone; seconds: what it took; records: how many it read and how many it kept.
    """

    partition: str
    until: int
    seconds: float
    records_before: int
    records_after: int


# [2026-11-21 21:50:00,100] INFO Cleaner 0: Beginning cleaning of log t-0 (kafka.log.LogCleaner)
# ...
# [2026-11-21 21:50:02,600] INFO [kafka-log-cleaner-thread-0]:
# 	Log cleaner thread 0 cleaned log t-0 (dirty section = [0, 41265])
# 	3.0 MB of log processed in 2.5 seconds (1.2 MB/sec).
# 	...
# 	Start size: 3.0 MB (41,265 messages)
# 	End size: 1.7 MB (20,210 messages)
_THEIRS = re.compile(
    r"\[(?P<began>[^]]+)\] INFO Cleaner \d+: Beginning cleaning of log (?P<partition>\S+) "
    r"(?:(?!Beginning cleaning).)*?"
    r"\[(?P<ended>[^]]+)\] INFO \[kafka-log-cleaner-thread-\d+\]:\s+"
    r"Log cleaner thread \d+ cleaned log (?P=partition) \(dirty section = \[\d+, (?P<until>\d+)\]\)"
    r"(?:(?!Beginning cleaning).)*?"
    r"Start size: [^(]*\((?P<before>[\d,]+) messages\)\s+"
    r"End size: [^(]*\((?P<after>[\d,]+) messages\)",
    re.DOTALL,
)


def apache_kafka(output: str) -> list[Cleaning]:
    """The passes that `kafka.log.LogCleaner` logged; timed by its lines, since it rounds to tenths of a second."""
    return [
        Cleaning(
            found["partition"],
            int(found["until"]),
            (_moment(found["ended"]) - _moment(found["began"])).total_seconds(),
            _number(found["before"]),
            _number(found["after"]),
        )
        for found in _THEIRS.finditer(output)
    ]


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)  # Only differences count.


def _number(text: str) -> int:
    return int(text.replace(",", ""))


# 2026-11-21T21:50:02Z [info     ] log cleaned    clean_to=41265 partition=t-0 records_kept=20210 ... seconds=0.05
_OURS = re.compile(r"^\S+ \[info *\] log cleaned +(?P<fields>\w+=.*)$", re.MULTILINE)
_FIELD = re.compile(r"(\w+)=(\S+)")


def sordini(output: str) -> list[Cleaning]:
    """The passes that Sordini logged: one line each."""
    lines = (dict(_FIELD.findall(found["fields"])) for found in _OURS.finditer(output))
    return [
        Cleaning(
            fields["partition"],
            int(fields["clean_to"]),
            float(fields["seconds"]),
            int(fields["records_read"]),
            int(fields["records_kept"]),
        )
        for fields in lines
    ]


def read(output: str) -> list[Cleaning]:
    """The passes that either broker logged."""
    return apache_kafka(output) + sordini(output)
