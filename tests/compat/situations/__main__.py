"""`python -m tests.compat.situations` writes docs/compatibility.md from the situations and the known differences."""

from pathlib import Path

from tests.compat.situations.catalogue import SITUATIONS
from tests.compat.situations.differences import DIFFERENCES
from tests.compat.situations.registry import KRAFT

PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"

HEAD = """\
# Compatibility

Sordini is held against two judges: clients that nobody here wrote, and Apache Kafka 3.9.1 itself.

## Clients

`tests/compat/` runs them against a live broker, unmodified: kafka-python 3 (idempotent and acks=all by default),
aiokafka, confluent-kafka (librdkafka) and kcat, with every codec, keys, headers, timestamps, seeks by time and a
restart in the middle, on partitions of their choice and in consumer groups; their administration clients; Apache
Kafka's own tools; and Spark's Kafka source.

One gap of kafka-python 3.0.12 is worth knowing, whoever the broker is: its consumer joins a group without waiting for
its topic's partitions, and joins once more when it hears of them. Where a `poll` ends before that is done, it never looks
at what it was given. `consumer.topics()` before the first `poll` has it know them.

## Spark's own source and sink

`tests/pipeline/test_jvm_*.py` run them with PySpark 4.2.0 and the jars of `pipeline/jars/lock.py`. Batches: subscribed,
assigned and by pattern; bounded by offsets and by timestamps, for all partitions or each; split by `minPartitions`;
headers; every codec; `read_committed`. Streams: topics and partitions that come while a pattern is subscribed,
`maxOffsetsPerTrigger`, restarts from a checkpoint, a broker killed meanwhile, retention that passes the reader, a topic
made again, the gaps of compaction, offsets asked for in the deprecated way, continuous and real-time triggers. Writing:
keys, headers, chosen partitions, zstd, topics that are made on demand. `make pipeline` runs all of it against one of our
brokers, three, and an Apache Kafka as the judge, and against one also with PySpark 4.0.0 and its connector as Spark
resolves it.

## Apache Kafka, asked the same

{count} situations are played over raw sockets against both brokers, with a codec made from the message definitions
inside Apache Kafka's own jar, and their answers compared field by field (`tests/compat/test_situations.py`). Apache
Kafka runs with ZooKeeper; the {kraft} about requests that it serves only without are played against one without. Error
texts are our own words and not compared. Groups have at most 4 members there and sessions of 100 ms, so that these
limits are reached soon. Sordini runs there with `sordini.validate.compressed=true`, since Apache
Kafka opens every compressed batch; by default we open one only where a rule needs its records, see
[record-checks.md](record-checks.md).

## The same files

`tests/compat/interchange/` lets Apache Kafka 2.7.2 and 3.9.1 start on directories that Sordini left, and Sordini on
theirs, stopped in order and killed: the same records, bounds, committed offsets, producers and transactions have to be
there, and nothing to recover after an orderly stop (`make interchange` runs all of it). Its dump reads every file of
ours without a complaint, and ours prints the same (`test_dump.py`); both cleaners leave the same records in the same
batches (`test_compaction.py`); what is produced for topics of the old message formats is stored as the same bytes, or
the same records where it was compressed (`test_old_formats.py`).

## Where we differ on purpose

| situation | why |
| --- | --- |
"""

TAIL = """
Beyond single answers:

- **The default data directory** is `./data`; Apache Kafka's lies among the temporary files, which a
  restart of the machine may empty.
- **Coordination** is a file in the first log directory unless `zookeeper.connect` names a ZooKeeper. The tree in it is
  Apache Kafka's.
- **Taken and shown, without effect yet**: replication throttles. Tiered storage is refused where it would be switched
  on.
- **A topic's two nodes** (configuration and assignment) are written in one transaction, so that neither stands alone.
- **The first FindCoordinator** waits for the topic it brings about (docs/benchmarks.md has a row of it); Apache Kafka
  answers COORDINATOR_NOT_AVAILABLE at once, and the client comes back when it sees fit.
- **A commit that comes while its group is read** waits for that, for `offsets.commit.timeout.ms` at most; Apache Kafka
  answers COORDINATOR_LOAD_IN_PROGRESS at once. What was read is told once all in-sync replicas have it: an offset that
  a consumer was told is not unknown to the next coordinator.
- **Bounds on what one request costs are ours alone**: past 50,000 rows (elements with fields, strings, or numbers that
  are answered by a row; ten other numbers count as one) a request of up to 1 MiB closes its connection, a larger one
  past as many for each MiB; requests of the controller may have twice as many, and a marker of a transaction counts
  for 20. A request that names the same group, topic or broker more than ten times is refused with INVALID_REQUEST, and
  so is one whose answer in rows would be larger than 100 MiB, or that has more than 2,000 resources described which
  are not alike. At most 100 topics are made at a time because a client has named them: the others are
  LEADER_NOT_AVAILABLE until it asks again. What is long within these bounds is done in slices between other clients'
  requests.
- **A stall of the broker** costs no member its place: what ended meanwhile is prolonged by it.
- **A damaged log directory** is repaired where Apache Kafka would silently serve less, or records that were aborted: a
  torn tail, a missing producer snapshot or transaction index behind a clean-shutdown marker, padded indexes.
- **A compacted batch** keeps its first timestamp, where Apache Kafka moves it to that of the first record left; and
  records are compacted only once they are on the disk.
- **Keys that ask for protection** which is not given here (`authorizer.class.name`, `ssl.client.auth=required`, client
  quotas, policies; [configuration.md](configuration.md#protection) lists them) refuse the start and are refused over the
  wire. Apache Kafka passes over what it does not know, and what its listeners make no use of.
- **Files are 0600 and directories 0700** when they are made, whatever the umask, which decides with Apache Kafka. A log
  file, a log directory or a store that exists keeps its mode: make one beforehand to let a group read it. A checkpoint
  is a new file each time it is written.
- **`sordini log dump`** on a terminal escapes what cannot be printed; `--raw`, or a pipe, has Apache Kafka's bytes.
- **Old message formats** are stored by the same rules; [record-checks.md](record-checks.md) lists where the answers to
  wrong ones differ.

## The situations

"""


def page() -> str:
    """The whole page."""
    reasons: dict[tuple[str, str], None] = {(one.sentence, one.why): None for one in DIFFERENCES}
    rows = "".join(f"| {_cell(sentence)} | {_cell(why)} |\n" for sentence, why in reasons)
    listed = "".join(f"- {one.sentence}\n" for one in SITUATIONS)
    kraft = sum(one.judge == KRAFT for one in SITUATIONS)
    return HEAD.format(count=len(SITUATIONS), kraft=kraft) + rows + TAIL + listed


def _cell(text: str) -> str:
    return ("every one" if text == "*" else text).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
