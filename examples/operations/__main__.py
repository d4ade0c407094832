"""The operations example, all of it with one command:

    python -m examples.operations
    python -m examples.operations --seed 7 --minutes 30

Machines are watched and alerts raised, crawlers flagged, visits counted by member; what was planted has to be found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from examples.activity.generator.visits import MINUTE_MS
from examples.operations.generator import CRAWLERS, Happened, Plan, happen
from examples.operations.watch import Seen, job, watch
from examples.programs import Broker, ExampleError, ExampleFolder, stop_on_signals
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.session import open_session

BUSIEST = 5


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.operations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=int, default=10, help="so much time is made up")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    stop_on_signals()
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    start_ms = (int(time.time() * 1000) // MINUTE_MS - asked.minutes) * MINUTE_MS
    happened = happen(Plan(asked.seed, start_ms, asked.minutes))
    try:
        with tempfile.TemporaryDirectory(prefix="operations-") as name, Broker(ExampleFolder(Path(name), {})) as broker:
            tell("a broker is ready; starting Spark")
            spark = open_session([job("alerts", broker.bootstrap, Path(name))], "local[2]")
            try:
                alerts = happened.too_much.total()
                seen = watch(spark, broker.bootstrap, Path(name), happened.records, alerts, tell)
            finally:
                spark.stop()
    except (ExampleError, PipelineError) as error:
        print(f"the example failed: {error}", file=sys.stderr)
        return 1
    print("\n".join(reported(happened, seen)))
    return 0 if agrees(happened, seen) else 1


def reported(happened: Happened, seen: Seen) -> list[str]:
    """What was found, beside what was planted."""
    lines = ["", f"Alerts: {len(seen.alerts)}, of {len(happened.incidents)} incidents"]
    for (host, metric), count in sorted(happened.too_much.items()):
        found = [alert for alert in seen.alerts if (alert.host, alert.metric) == (host, metric)]
        worst = max((alert.value for alert in found), default=0.0)
        lines.append(f"  {host:8} {metric:12} {len(found):4} of {count} measures, up to {worst:,.1f}")
    lines.append(f"Crawlers: {len(seen.crawlers)}, of {len(CRAWLERS)}")
    lines += [
        f"  {one.address:16} {one.requests_a_minute:4} requests a minute, says it is {one.user_agent}"
        for one in seen.crawlers
    ]
    lines.append(f"Visits: {sum(seen.visits.values())} to {len(seen.visits)} members, each in one partition. Most to")
    busiest = sorted(seen.visits.items(), key=lambda item: (-item[1], item[0]))[:BUSIEST]
    lines += [f"  member {member:4} {visits:4} visits" for member, visits in busiest]
    return lines


def agrees(happened: Happened, seen: Seen) -> bool:
    """Whether all that was planted was found, and nothing else."""
    alerted = {(alert.host, alert.metric) for alert in seen.alerts}
    return (
        len(seen.alerts) == happened.too_much.total()
        and alerted == set(happened.too_much)
        and {one.address for one in seen.crawlers} == set(CRAWLERS)
        and seen.visits == dict(happened.visits)
        and all(len(partitions) == 1 for partitions in seen.partitions.values())
    )


if __name__ == "__main__":
    sys.exit(main())
