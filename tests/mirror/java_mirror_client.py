"""A program: what Java's RemoteClusterUtils says of a cluster that a mirror copies into, as one line of JSON.

python java_mirror_client.py BOOTSTRAP SOURCE GROUP log4j.properties JAR...
"""

from __future__ import annotations

import json
import sys

import jpype


def main(bootstrap: str, source: str, group: str, log4j: str, *jars: str) -> None:
    jpype.startJVM("-Xmx128m", "-XX:TieredStopAtLevel=1", f"-Dlog4j.configuration=file:{log4j}", classpath=list(jars))
    utils = jpype.JClass("org.apache.kafka.connect.mirror.RemoteClusterUtils")
    settings = jpype.JClass("java.util.HashMap")()
    settings.put("bootstrap.servers", bootstrap)
    timeout = jpype.JClass("java.time.Duration").ofSeconds(20)
    offsets = utils.translateOffsets(settings, source, group, timeout)
    found = {
        "offsets": {str(entry.getKey()): int(entry.getValue().offset()) for entry in offsets.entrySet()},
        "upstream": sorted(map(str, utils.upstreamClusters(settings))),
        "hops": int(utils.replicationHops(settings, source)),
        "heartbeats": sorted(map(str, utils.heartbeatTopics(settings))),
        "checkpoints": sorted(map(str, utils.checkpointTopics(settings))),
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
