"""`python -m tests.compat.situations` writes two pages from the situations and the known differences.

docs/compatibility.md is for users, docs/evidence/situations.md lists what was compared.
"""

from pathlib import Path

from tests.client_suites.aiokafka_kit import FAILING, RACING, SKIPPED
from tests.compat.situations.catalogue import SITUATIONS
from tests.compat.situations.differences import DIFFERENCES
from tests.compat.situations.registry import KRAFT
from tests.outside.versions import TESTED

DOCS = Path(__file__).parents[3] / "docs"

HEAD = """\
# Compatibility

Sordini is tested against independent clients and against Apache Kafka itself, 3.9.1 and 4.4.0.

## Clients

These releases are run, the oldest and the newest of each; `tests/outside/versions.py` is the one list of them.

| client | oldest | newest | tests |
| --- | --- | --- | --- |
{tested}
The newest Python clients are those that are installed when the tests run, at least the ones named here. The
connector of PySpark 4.3.0 is not in every repository yet: there Spark's own source runs with that of 4.2.0.

`tests/compat/` runs them against a live broker, unmodified: kafka-python 3 (idempotent and acks=all by default),
aiokafka, confluent-kafka (librdkafka) and kcat, with every codec, keys, headers, timestamps, seeks by time and a
restart in the middle, on partitions of their choice and in consumer groups; their administration clients; Apache
Kafka's own tools; and Spark's Kafka source.

kafka-python 3.0.12 has a gap with any broker: its consumer joins a group before it has the topic's metadata, and joins
again when the metadata arrives. If a `poll` ends before the second rebalance does, the consumer ignores its new
assignment. Call `consumer.topics()` before the first `poll` to load the metadata first.

The Scala clients that Kafka began with, as Apache Kafka 1.1.1 has them for the last time, run unmodified against clusters
with a ZooKeeper: the old producer (synchronous and asynchronous, every codec of theirs), the ZooKeeper consumer with lists of
patterns, the simple consumer, and the tools for offsets and groups. A group moves its offsets from ZooKeeper to Kafka and back
by rolling restarts while messages arrive; nothing is lost and nothing read twice, and nothing is lost when members and brokers
are killed meanwhile. `make originals` runs all of it against Apache Kafka 2.7.2 as well. Four things are theirs, with any
broker: with `offsets.storage=zookeeper` dual commit has no effect, so the way back goes by `offsets.storage=kafka` and
`dual.commit.enabled=true`, too; there dual commit leaves out of ZooKeeper the offset of a partition of which nothing was read
since the restart, so each partition must have moved on before the last restarts; a member reads the offsets of new partitions
before it owns them, so messages which the former owner takes in between are read twice, unless it pauses; and `shutdown`
commits while messages are still taken.

## aiokafka's own tests

`make aiokafka-suite` runs the test suite of aiokafka 0.14.0, as it is at the commit of that release, against the test kit
([testing.md](testing.md)) in place of the containers of its fixtures: one broker on a thread of the tests' process, with
PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL listeners, PLAIN and SCRAM, and an authorizer (`tests/client_suites/`). Of 1,081
tests 974 pass and one fails; 106 are skipped, of these {empty} by the suite itself: parametrised with nothing, and one for
brokers before 1.0. On two cores with no other work it takes six minutes. Several of its tests count what happens in a second: on
machines that are busy otherwise, `test_coordinator__heartbeat_routine` failed once in three runs.

| test | outcome | why |
| --- | --- | --- |
{suite}

## Other clients' own tests

`make librdkafka-suite`, `make confluent-suite` and `make franz-go-suite` run tests of librdkafka 2.16.0, confluent-kafka 2.15.0 and
franz-go 1.22.2 by both group protocols, against a broker; [client-suites.md](evidence/client-suites.md) has their outcomes.

## Flink's own source and sink

`KafkaSource` and `KafkaSink` of Flink 2.2.1 with the connector 5.0.0-2.2 run unchanged, with `group.protocol` as `classic` and as
`consumer`: bounded reading, checkpoints, a failure, a savepoint, committed offsets, and an exactly-once sink (`make flink`,
against Apache Kafka 4.4.0 as well).

## Spark's own source and sink

A batch is read with `spark.read.format("kafka")`, a stream with `spark.readStream.format("kafka")`, and the sink writes
with `format("kafka")`, under the options of Spark's documentation; nothing is set for Sordini. The JAR comes with
`spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0` ([pipeline.md](pipeline.md#stopping-and-starting) says what to do where
Spark cannot download it). No JAR is needed for `format("sordini")` ([spark-source.md](spark-source.md)).

`tests/pipeline/test_jvm_*.py` run them with PySpark 4.3.0 and that JAR. Batches: subscribed,
assigned and by pattern; bounded by offsets and by timestamps, for all partitions or each; split by `minPartitions`;
headers; every codec; `read_committed`. Streams: topics and partitions that come while a pattern is subscribed,
`maxOffsetsPerTrigger`, restarts from a checkpoint, a broker killed meanwhile, retention that passes the reader, a topic
made again, the gaps of compaction, offsets asked for in the deprecated way, continuous and real-time triggers. Writing:
keys, headers, chosen partitions, zstd, topics that are made on demand. `tests/pipeline/test_secured_broker.py` does both with
TLS, SCRAM and access control entries. `make pipeline` runs all of it against one of our
brokers, three, and an Apache Kafka as the judge, and against one also with PySpark 4.2.0 and its connector as Spark
resolves it.

## The same requests to Apache Kafka

{count} situations ([the list](evidence/situations.md)) are run over raw sockets against both brokers, with a codec generated from the message definitions
inside Apache Kafka's own jar, and the responses are compared field by field (`tests/compat/test_situations.py`). Apache
Kafka is 3.9.1 with ZooKeeper; for {kraft} situations, most of them of requests and versions that 3.9.1 does not serve,
it is 4.4.0, which has no ZooKeeper. Error texts are not compared. Groups have at most 4 members and sessions of 100 ms, so that
these limits are reached quickly. Sordini runs with `sordini.validate.compressed=true`, since Apache
Kafka opens every compressed batch; by default we open one only where a rule needs its records, see
[record-checks.md](evidence/record-checks.md).

## When a Fetch waits, and clients in states of error

`tests/compat/test_fetch_waits.py` sends every version of Fetch with each row that is an error, of consumers and followers,
without a session, in a new one and later in it, alone and beside a partition without news, to both brokers, and compares
which of them wait for `max_wait`. A topic or partition that does not exist, an id that is unknown and a topic that may not be
read end no wait of other partitions. OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
KAFKA_STORAGE_ERROR, a diverging epoch and the first INCONSISTENT_TOPIC_ID (a session knows the id of a topic that was made
again; without a session the id is UNKNOWN_TOPIC_ID) end it, and so does the rest of an older segment however large
`min_bytes` is.

`tests/compat/test_spin.py` has each client library in fourteen states at once (topics deleted, made again, unknown, without a
leader or refused; read, subscribed to, written to; no coordinator), and counts the requests of each in four seconds
behind a proxy: kafka-python, aiokafka, confluent-kafka and the Java client, oldest and newest, franz-go, and kcat. None
sends more than at Apache Kafka 3.9.1. In eight more states, which a broker leaves by itself, the proxy answers (a group or
its offsets are loading, another coordinator, an unknown member, a rebalance, no leader yet): no client goes on without
pause. Some of it, measured by `make spin`:

| client | state | Apache Kafka | Sordini |
| --- | --- | --: | --: |
| franz-go 1.20.2 | one of two topics deleted | 2 | 2 |
| franz-go 1.20.2 | one of two topics made again | 488 to 2,143 | 2 |
| Java 4.4.0 | its only topic deleted | 1,276 to 1,554 | 11 |
| every other one | one of two topics deleted | 12 to 24 | 11 to 24 |

Two clients have no pause of their own, with any broker. aiokafka requests metadata again as soon as it has it when its only
assigned topic is deleted, or a topic that it writes to has no leader (150 to 350 requests per second at Apache Kafka).
kafka-python 2.0.2 fetches without a session, and gets the error of its only topic at once each time.

## The same files

`tests/compat/interchange/` starts Apache Kafka 2.7.2 and 3.9.1 on directories written by Sordini, and Sordini on
theirs, after orderly stops and kills: records, offsets, committed offsets, producers and transactions must be the same,
and an orderly stop must leave nothing to recover (`make interchange` runs all of it). Kafka's dump tool reads every file
of ours without errors, and ours prints the same (`test_dump.py`); both cleaners leave the same records in the same
batches (`test_compaction.py`); what is produced for topics of the old message formats is stored as the same bytes, or
the same records where it was compressed (`test_old_formats.py`).

## Clusters of Sordini alone

With `sordini.cluster.exclusive=true` on all brokers `transaction.version` is 2 as in new clusters of Apache Kafka 4: clients that
know it raise their producer epoch with each transaction (KIP-890 part 2), others are served as before. Then and only then
is written what Apache Kafka 2.7 and 3.9 cannot read: values of `__transaction_state` in version 1, `transaction.version`
among the features of each registration, and in `/feature`. `tests/compat/test_raised_epochs.py` compares the answers with
Apache Kafka 4.4.0 (`make interchange`), and runs its Java client.

- An Apache Kafka 3.9 broker does not start in such a cluster: the feature is finalized, and it does not support it. A
  broker of ours without the key does not start either, nor one with it where another is registered without. The controller
  leaves out a broker that differs.
- So the key is changed with all brokers stopped. Back to `false`, everything is read, and from then on written as
  before; clients that have read the feature have to be restarted.
- `inter.broker.protocol.version` is 2.8 or newer.
- A transaction that times out fences its producer. In Apache Kafka 4.4 such a producer may abort, and continues.
- InitProducerId with an epoch (KIP-360) in an ongoing transaction aborts it and fences, as in Apache Kafka 3.9; 4.4 answers
  the next epoch. Clients of transaction.version 2 abort by EndTxn, which raises the epoch.

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
- **A cordon** (`cordoned.log.dirs`) keeps new partitions out of some of a broker's directories. A whole broker cannot be
  cordoned: one directory must be left.
- **Tiered storage** is refused where it would be switched on. Replication throttles work as in Apache Kafka.
- **A topic's two nodes** (configuration and assignment) are written in one transaction, so that neither stands alone.
- **The first FindCoordinator** waits for the topic that it creates (docs/benchmarks.md has a row of it); Apache Kafka
  answers COORDINATOR_NOT_AVAILABLE at once, and the client retries after its back-off.
- **Bounds on stored client state**: all groups of a broker use `sordini.group.memory.bytes.max` together (past
  it new members get GROUP_MAX_SIZE_REACHED and new offsets INVALID_COMMIT_OFFSET_SIZE), all fetch sessions
  `sordini.fetch.session.partitions.max` partitions, and a partition `sordini.partition.producers.max` idempotent
  producers (past it a new one gets KAFKA_STORAGE_ERROR until another has been idle for ten minutes). Apache Kafka
  bounds none of these.
- **Requests of a transactional producer on a connection older than its newest** close that connection instead of being
  served: their client has given them up (`sordini.transactional.stale.connection.fencing.enable`,
  [delayed-requests.md](delayed-requests.md)). A client that is disconnected connects again and sends again. It happens
  once to a client that was connected before the coordinator's partition was loaded.
- **Heartbeats of a consumer group's member** (KIP-848) on a connection older than its newest close that connection, too
  (`sordini.group.consumer.stale.connection.fencing.enable`). Apache Kafka serves them: a delayed join gives away partitions that
  its member reads.
- **Transactional ids and open transactions** are bounded by `sordini.transactional.ids.max` and
  `sordini.transactions.ongoing.max` (past them POLICY_VIOLATION). Apache Kafka bounds neither.
- **Requests of our own**, for `sordini groups history` and `sordini clients`, have the API keys 32200 and 32201. ApiVersions
  lists them only for clients that name themselves `sordini`.
- **Metrics of clients** (KIP-714) are taken where `sordini.client.telemetry.enable` is true; Apache Kafka takes them where a
  metrics reporter does. Patterns of subscriptions are matched in linear time, and refused where only a backtracking engine knows
  them; there are 100 subscriptions at most, and lists in them can be appended to and subtracted from. An instance of a client is
  known for three push intervals, and not only until its connection closes.
- **`queued.max.request.bytes`** closes, once it is reached, the connections that progress least, and never keeps a request
  of up to 1 MiB waiting; Apache Kafka stops reading from all connections.
- **At `max.connections`** a connection of another broker is accepted where brokers have a listener of their own, as with Apache
  Kafka, which then closes the connection of a client that was idle for longest; here none is closed.
- **Passwords that the former secret encrypts** (`password.encoder.old.secret`) are encrypted again once the broker is registered.
  Apache Kafka does it before, and where no other broker is the controller then, its start fails (3.9.1).
- **`preallocate`** reserves disk space without making the file longer, up to an eighth of the free space; Apache
  Kafka makes the file longer, and on Linux reserves nothing.
- **A topic that is gone** ends one wait of a fetch session: once the session was sent UNKNOWN_TOPIC_OR_PARTITION,
  UNKNOWN_TOPIC_ID or INCONSISTENT_TOPIC_ID for a partition, later fetches wait for `max_wait` before they repeat it. Apache
  Kafka repeats it at once if nothing else is requested, or if the topic was made again, and some clients fetch without pause.
- **Topics that may not be read** make no fetch session alone; beside others they are part of it, as at Apache Kafka, and are
  read in it once that is allowed.
- **A log directory that fails** ends the wait of fetches of its partitions; at Apache Kafka they wait for `max_wait`.
- **A broker that starts in a cluster** answers Metadata, FindCoordinator, DescribeCluster and DescribeTopicPartitions
  once it has a controller's first metadata, or after `zookeeper.session.timeout.ms` without. Apache Kafka on ZooKeeper answers
  at once: no brokers and no topics, upon which librdkafka drops every broker that it knows, and members of classic groups
  rejoin.
- **A commit that arrives while its group is loading** waits for the load, for `offsets.commit.timeout.ms` at most; Apache
  Kafka answers COORDINATOR_LOAD_IN_PROGRESS at once. Offsets are returned only when all in-sync replicas have them, so
  that an offset returned to a consumer is known to the next coordinator.
- **Apache Kafka has no bounds on the cost of one request**: past 50,000 rows (elements with fields, strings, or numbers that
  are answered by a row; ten other numbers count as one) a request of up to 1 MiB closes its connection, a larger one
  past as many for each MiB; requests of the controller may have twice as many, and a marker of a transaction counts
  for 20. A request that names the same group, topic or broker more than ten times is refused with INVALID_REQUEST, and
  so is one whose answer in rows would be larger than 100 MiB, or that has more than 2,000 resources described which
  are not alike. At most 100 topics are created automatically at a time: the others are LEADER_NOT_AVAILABLE until the
  client's next request. Long requests within these bounds are served in slices between other clients' requests.
- **Requests between brokers** are refused by a broker that is alone (CLUSTER_AUTHORIZATION_FAILED), whichever listener
  they come in on; markers that end an open transaction are written there, so that a hanging one can be ended (KIP-664). In
  a cluster a controller's command must name the controller, the controller epoch and the registration that the
  coordination store has: Apache Kafka obeys any epoch that is not lower than the last.
- **A stall of the broker** removes no group member: session timeouts are extended by its length.
- **A damaged log directory** is repaired where Apache Kafka would silently serve fewer records, or aborted ones: a
  torn tail, a missing producer snapshot or transaction index behind a clean-shutdown marker, padded indexes.
- **A compacted batch** keeps its first timestamp, where Apache Kafka moves it to that of the first record left; and
  records are compacted only once they are on the disk.
- **Keys that require protection** which is not implemented (client quotas, policies, Kerberos;
  [configuration.md](configuration.md#protection) lists them), or that no listener has, prevent the start and are refused over the
  wire. Apache Kafka ignores keys that it does not know, and those that its listeners do not use.
- **Files are 0600 and directories 0700** when they are made, whatever the umask, which decides with Apache Kafka. A log
  file, a log directory or a store that exists keeps its mode: make one beforehand to let a group read it. A checkpoint
  is a new file each time it is written.
- **`sordini log dump`** on a terminal escapes what cannot be printed; `--raw`, or a pipe, has Apache Kafka's bytes.
- **Old message formats** are stored by the same rules; [record-checks.md](evidence/record-checks.md) lists where the answers to
  wrong ones differ.
"""

SITUATIONS_HEAD = """\
# The situations

What is sent to Sordini and to Apache Kafka, and compared field by field; [compatibility.md](../compatibility.md) says how, and
where the two differ.

"""


def pages() -> dict[Path, str]:
    """Each page, by its file."""
    listed = "".join(f"- {one.sentence}\n" for one in SITUATIONS)
    return {DOCS / "compatibility.md": _compatibility(), DOCS / "evidence" / "situations.md": SITUATIONS_HEAD + listed}


def _compatibility() -> str:
    reasons: dict[tuple[str, str], None] = {(one.sentence, one.why): None for one in DIFFERENCES}
    rows = "".join(f"| {_cell(sentence)} | {_cell(why)} |\n" for sentence, why in reasons)
    kraft = sum(one.judge == KRAFT for one in SITUATIONS)
    tested = "".join(f"| {one.client} | {one.oldest} | {one.newest} | {one.where} |\n" for one in TESTED)
    return (
        HEAD.format(count=len(SITUATIONS), kraft=kraft, tested=tested, suite=_suite(), empty=106 - len(SKIPPED))
        + rows
        + TAIL
    )


def _suite() -> str:
    """The rows of the tests of aiokafka that do not simply pass."""
    outcomes = {"skipped": SKIPPED, "fails": FAILING, "may fail": RACING}
    return "".join(
        f"| `{name.partition('::')[2]}` | {outcome} | {why} |\n"
        for outcome, tests in outcomes.items()
        for name, why in tests.items()
    )


def _cell(text: str) -> str:
    return ("every one" if text == "*" else text).replace("|", "\\|")


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
