"""franz-go's own tests of groups and transactions, by both group protocols, against one broker: `make franz-go-suite`.

    python -m tests.client_suites.franz_go_suite [ARGUMENT OF GO TEST...]

The tests come with the module of the release, so that Go itself fetches them. Members join, leave and are replaced while
they consume, transform and produce, under every balancer, and as static members; each record must arrive once and in
order.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.outside import has_go
from tests.compat.groups.polled import QUICK_MEMBERS
from tests.outside.processes import SordiniProcess
from tests.outside.versions import FRANZ_GO_SUITE

PACKAGE = "github.com/twmb/franz-go/pkg/kgo"
TESTS = "TestGroupETL|TestTxnEtl|Test.*848|TestGroupSimple"
RECORDS = 100_000
SETTINGS: dict[str, object] = {
    **QUICK_MEMBERS,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "log.retention.bytes": -1,
}
GO_MODULE = f"module example.org/suite\n\ngo 1.25\n\nrequire github.com/twmb/franz-go {FRANZ_GO_SUITE}\n"


def main(arguments: list[str]) -> None:
    if not has_go():
        sys.exit("there is no Go that is new enough on the path")
    with tempfile.TemporaryDirectory() as folder, SordiniProcess(Path(folder) / "broker", SETTINGS) as broker:
        (Path(folder) / "go.mod").write_text(GO_MODULE, encoding="utf-8")
        environment = {
            **os.environ,
            "GOFLAGS": "-mod=mod",
            "KGO_SEEDS": broker.bootstrap,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(RECORDS),
        }
        subprocess.run(["go", "mod", "download", "all"], cwd=folder, env=environment, check=True)
        command = ["go", "test", "-count=1", "-v", "-timeout=20m", "-run", TESTS, *arguments, PACKAGE]
        done = subprocess.run(command, cwd=folder, env=environment, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
