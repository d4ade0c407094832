"""Fetch the own tests of client libraries, which are in no package: from their Git repositories, or clones of them."""

from __future__ import annotations

import os
import sys
import tomllib

from scripts.fetching import ROOT, fetch_commit, fetch_environment, run
from tests.outside import versions

AIOKAFKA_SUITE = ROOT / ".cache" / "aiokafka-suite"
AIOKAFKA_REPOSITORY = "https://github.com/aio-libs/aiokafka.git"
LIBRDKAFKA_SUITE = ROOT / ".cache" / "librdkafka-suite"
LIBRDKAFKA_REPOSITORY = "https://github.com/confluentinc/librdkafka.git"
LIBRDKAFKA_STEPS = (["src"], ["src-cpp"], ["tests", "build"])
"""Folders, and what to make there."""
CONFLUENT_SUITE = ROOT / ".cache" / "confluent-suite"
CONFLUENT_REPOSITORY = "https://github.com/confluentinc/confluent-kafka-python.git"
# The libraries themselves come from the package index: their sources beside the tests would be imported instead.
SUITE_FILES = ("tests", "pyproject.toml")


def own_requirements() -> list[str]:
    """What Sordini itself needs, for environments that import it from this repository."""
    found: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    return found


def fetch_aiokafka_suite() -> None:
    """The tests of one release, and an environment with that release and what its tests import."""
    fetch_environment(AIOKAFKA_SUITE / "environment", *own_requirements(), *versions.AIOKAFKA_SUITE)
    repository = os.environ.get("AIOKAFKA_REPOSITORY") or AIOKAFKA_REPOSITORY
    fetch_commit(AIOKAFKA_SUITE / versions.AIOKAFKA_SUITE_COMMIT, repository, *SUITE_FILES)


def fetch_librdkafka_suite() -> None:
    """The library and its tests, built without what no test of ours needs."""
    source = LIBRDKAFKA_SUITE / versions.LIBRDKAFKA_COMMIT
    fetch_commit(source, os.environ.get("LIBRDKAFKA_REPOSITORY") or LIBRDKAFKA_REPOSITORY, ".")
    if (source / "tests" / "test-runner").exists():
        return
    print(f"building {source.relative_to(ROOT)}", file=sys.stderr)
    left_out = [f"--disable-{feature}" for feature in ("gssapi", "sasl", "curl", "zstd")]
    for command in (
        ["./configure", *left_out],
        *(["make", "--silent", "-j2", "-C", *step] for step in LIBRDKAFKA_STEPS),
    ):
        run(["env", "-C", str(source), *command], dict(os.environ))


def fetch_confluent_suite() -> None:
    """The tests of one release, and an environment with that release and what its tests import.

    Their fixtures import a library of clusters that is beside them only.
    """
    source = CONFLUENT_SUITE / versions.CONFLUENT_SUITE_COMMIT
    fetch_commit(source, os.environ.get("CONFLUENT_REPOSITORY") or CONFLUENT_REPOSITORY, *SUITE_FILES)
    (clusters,) = (source / "tests" / "trivup").glob("trivup-*.tar.gz")
    fetch_environment(CONFLUENT_SUITE / "environment", *versions.CONFLUENT_SUITE, str(clusters))
