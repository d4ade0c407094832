"""A Kafka Streams application that counts words with `exactly_once_v2`, in a JVM inside this program.

    source --> word of each value --> (repartition topic) --> count in RocksDB (changelog topic) --> sink: word#count

`python -m tests.exactly_once.word_count '{...}'`. Every count is written, none is left out by a cache, so that a record
that was counted twice, or never, shows in the sink.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final

import jpype

from tests.exactly_once.views import word_of

_LOG4J: Final = Path(__file__).parents[1] / "outside" / "log4j.properties"
POLL_S: Final = 0.5
_STREAMS: Final = "org.apache.kafka.streams"
_SETTINGS: Final = {
    "processing.guarantee": "exactly_once_v2",
    "replication.factor": "3",
    "commit.interval.ms": "100",
    "num.stream.threads": "1",
    "statestore.cache.max.bytes": "0",
    "session.timeout.ms": "4000",
    "heartbeat.interval.ms": "1000",
    "auto.offset.reset": "earliest",
    "metadata.max.age.ms": "2000",
    "topic.min.insync.replicas": "2",
}


def topology(source: str, sink: str) -> Any:
    builder = jpype.JClass(f"{_STREAMS}.StreamsBuilder")()
    serdes = jpype.JClass("org.apache.kafka.common.serialization.Serdes")
    consumed, produced, grouped, materialized = (
        jpype.JClass(f"{_STREAMS}.kstream.{name}") for name in ("Consumed", "Produced", "Grouped", "Materialized")
    )
    text = serdes.String()
    word = jpype.JProxy(f"{_STREAMS}.kstream.KeyValueMapper", dict={"apply": lambda _, value: word_of(str(value))})
    shown = jpype.JProxy(
        f"{_STREAMS}.kstream.ValueMapperWithKey", dict={"apply": lambda key, count: f"{key}#{int(count)}"}
    )
    stream = builder.stream(source, consumed.with_(serdes.ByteArray(), text))
    counts = stream.groupBy(word, grouped.with_(text, text)).count(materialized.as_("counts"))
    counts.toStream().mapValues(shown).to(sink, produced.with_(text, text))
    return builder.build()


def main() -> None:
    orders = json.loads(sys.argv[1])
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    flags = ("-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xrs")
    jpype.startJVM(*flags, f"-Dlog4j.configuration=file:{_LOG4J}", classpath=orders["jars"])
    properties = jpype.JClass("java.util.Properties")()
    where = {
        "application.id": orders["group"],
        "bootstrap.servers": orders["bootstrap"],
        "state.dir": orders["state"],
    }
    for key, value in {**_SETTINGS, **where}.items():
        properties.put(key, value)
    streams = jpype.JClass(f"{_STREAMS}.KafkaStreams")(topology(orders["source"], orders["sink"]), properties)
    streams.start()
    while not stopping.wait(POLL_S):
        if not streams.state().isRunningOrRebalancing() and str(streams.state()) != "CREATED":
            os._exit(1)  # What ended it is in the log; its supervisor starts it again.
    streams.close(jpype.JClass("java.time.Duration").ofSeconds(10))
    os._exit(0)


if __name__ == "__main__":
    main()
