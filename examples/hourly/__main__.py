"""One run of the hourly batch; cron or systemd starts it once an hour (README.md).

python -m examples.hourly --bootstrap localhost:9092 --directory /var/lib/hourly
python -m examples.hourly --bootstrap localhost:9092 --directory /var/lib/hourly --hour 2026-11-26T07
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from examples.hourly.batch import JOBS, LOADED, Hour, run
from examples.programs import ExampleError, stop_on_signals
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.jobs.session import open_session


def main(arguments: list[str] | None = None) -> int:
    asked = parsed(arguments)
    stop_on_signals()
    try:
        names = {"HOURLY": str(asked.directory)}
        jobs = [read_job(JOBS / f"{name}.yaml", names, asked.bootstrap) for name in LOADED]
        spark = open_session(jobs, "local[2]")
        try:
            print(run(spark, asked.bootstrap, asked.directory, asked.hour))
        finally:
            spark.stop()
    except (ExampleError, PipelineError) as error:
        print(f"the batch of {asked.hour} failed and can be repeated: {error}", file=sys.stderr)
        return 1
    return 0


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.hourly", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--directory", type=Path, required=True, help="of tables, state and summaries")
    parser.add_argument("--hour", type=hour_of, default=Hour.before(datetime.now(UTC)), help="by default the last one")
    return parser.parse_args(arguments)


def hour_of(text: str) -> Hour:
    """Raises ArgumentTypeError for what is no hour."""
    try:
        return Hour(datetime.strptime(text, "%Y-%m-%dT%H").replace(tzinfo=UTC))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no hour: allowed is 2026-11-26T07, in UTC") from None


if __name__ == "__main__":
    sys.exit(main())
