"""Plain counters of all rooms as metrics, read when they are requested.

families.py          what a metric is
broker_families.py   process, network, requests, the loop
log_families.py      log directories, partitions (under-replicated, under min ISR), groups' members and rebalances
lag_families.py      committed offsets, and how far groups are behind
cleaner_families.py  log compaction
record_families.py   jobs on records in child processes; dead_letter_families.py: dead letters of share groups
latency.py           histograms of requests
kafka_families.py    Apache Kafka's names of the JMX exporter; topic_traffic.py and recent_latencies.py count for them
exporter.py          the text format
readiness.py         why the broker is not ready
endpoint.py          GET /metrics, /healthz, /readyz and /health
telemetry/           metrics that clients push (KIP-714): who pushes what, what was pushed, and who is refused
tracing/             spans of slow requests (OpenTelemetry); tracing_families.py counts them

Without `sordini.metrics.port` nothing but `telemetry` is imported of this room, and no request is timed.
"""
