"""Where Sordini answers transactional producers otherwise than Apache Kafka; a part of `differences.py`."""

from tests.compat.situations.difference import ABSENT, ANYTHING, Difference, several

_START_KEPT = (
    "Apache Kafka shows the start of the last transaction until the coordinator is loaded again; the record that it "
    "has written has none, and there is no transaction."
)
_CONNECTION = (
    "A request that its client has given up may arrive in the next transaction. So the coordinator serves none on a "
    "connection older than the producer's newest: it closes that one (docs/delayed-requests.md)."
)

TRANSACTION_DIFFERENCES: list[Difference] = [
    *several(
        "InitProducerId while a transaction is open aborts it, and raises the epoch twice",
        {"*/2/transaction_start_time_ms": -1},
        _START_KEPT,
    ),
    *several(
        "InitProducerId with the producer's id and epoch while its transaction is open",
        {"4/transaction_start_time_ms": -1},
        _START_KEPT,
    ),
    *several("InitProducerId after a commit and after an abort", {"*/2/transaction_start_time_ms": -1}, _START_KEPT),
    *several(
        "InitProducerId with an epoch given up while the successor's transaction is open",
        {"0/error_code": 90, "1": "Ongoing"},
        "Apache Kafka does not compare the epoch while a transaction is open: a producer that was fenced aborts the "
        "transaction of its successor.",
    ),
    *several(
        "AddPartitionsToTxn v4 and v5 that verifies: what is in a transaction, what is not, and when there is none",
        {"4/*/partition_error_code": 48},
        "Version 4 is of brokers that do not know TRANSACTION_ABORTABLE, which version 5 brought: 3.7 takes it for an "
        "unknown error, and knows INVALID_TXN_STATE.",
    ),
    *several(
        "Produce of a transactional batch again: in its transaction, and after its end",
        {"0/in the next one/error_code": 48, "0/in the next one/base_offset": -1},
        "A client that gave a batch up and aborted numbers its next records alike. Acknowledged as a repetition of the "
        "batch in the log, they would be missing from the next transaction.",
    ),
    *several(
        "Produce of a transactional batch again: in its transaction, and after its end",
        {"0/a new batch/error_code": 0, "0/a new batch/base_offset": 3},
        "Apache Kafka compares the next sequence with that of the repeated batch, and the producer can go no further. "
        "A repetition changes nothing here.",
    ),
    *several(
        "Produce of a transactional batch of no producer, and of an id that was never given",
        {"no producer id/error_code": 49, "no producer id/base_offset": -1},
        "Apache Kafka stores a transactional batch without a producer, which no marker ever ends.",
    ),
    *several(
        "Produce of transactional batches to internal topics",
        {"*/error_code": 17},
        "Apache Kafka asks the coordinator first. No client writes to these topics, and INVALID_TOPIC_EXCEPTION is what "
        "it answers to a plain batch.",
    ),
    *several(
        "TxnOffsetCommit of one partition twice in a request",
        {"0/topics/0/partitions/1/*": ANYTHING},
        "Apache Kafka answers the two with one row, we answer each.",
    ),
    *several(
        "TxnOffsetCommit of a fenced producer while its successor's offset is not committed yet",
        {"2/error_code": 88, "4/committed_offset": 7},
        "Apache Kafka 3.9.1 refuses the fenced producer's offset, and forgets the successor's for the same partition: "
        "its transaction commits without it, so that records are processed twice. 4.4.0 does as we do.",
    ),
    *several(
        "EndTxn on a connection that is older than the producer's newest",
        {"late": "the connection is closed", "late/*": ABSENT},
        _CONNECTION,
    ),
    *several(
        "TxnOffsetCommit on the connection on which a transaction with offsets was aborted",
        {"first": "the connection is closed", "first/*": ABSENT},
        "A client that gives up a TxnOffsetCommit and aborts has used no newer connection. So an abort with offsets "
        "closes the connection once, and the client sends its next one again (docs/delayed-requests.md).",
    ),
    *several(
        "Fetch v2 and v3 of a log with transactions leaves out the markers",
        {"v? from 5/*/records/*": ANYTHING},
        "Apache Kafka sends the first record twice where the first batch is a marker.",
    ),
    *several(
        "ListTransactions v2 by a pattern of transactional ids",
        {"case/*": ANYTHING},
        "Patterns come from clients, and an engine for all of RE2 is not here: flags are refused with "
        "INVALID_REGULAR_EXPRESSION; letters, sets, groups, alternatives and repetitions are served.",
    ),
]
