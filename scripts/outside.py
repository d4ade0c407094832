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
    python3 scripts/outside.py spark 4.2.0      an older PySpark with its Kafka source; about a minute and 500 MB
    python3 scripts/outside.py connector        the Kafka source of the PySpark in .venv, as pipeline/jars locks it
    python3 scripts/outside.py franz-go         a test's Go client, into the module cache of a Go that is installed
    python3 scripts/outside.py quixstreams      Quix Streams with all that it needs, in an environment; 150 MB
    python3 scripts/outside.py aiokafka-suite   aiokafka's own tests, and an environment for them; 60 MB
    python3 scripts/outside.py docker           a Docker engine, debootstrap and Docker Compose; some minutes

Programs come from Debian (only root may install them), jars from Maven's configured repository into
`.cache/kafka/<version>/lib`, PySpark from pip's configured index into its own environment. aiokafka's tests are in no
package: they come from its Git repository, or from the clone that AIOKAFKA_REPOSITORY names. What exists already is not
fetched again. Without root this script does not fail: tests that lack a program are skipped, with the command that
fetches it. In CI they fail, and so does this script.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.outside import versions  # noqa: E402  Found once the repository is on the path.

JARS = ROOT / ".cache" / "kafka"
STREAMS = ROOT / ".cache" / "kafka-streams"
TOOLS = ROOT / ".cache" / "kafka-tools"
MIRROR = ROOT / ".cache" / "kafka-mirror"
SPARK = ROOT / ".cache" / "spark"
CONNECTOR = SPARK / "connector"
PYTHON_CLIENTS = ROOT / ".cache" / "python-clients"
QUIXSTREAMS = ROOT / ".cache" / "quixstreams"
AIOKAFKA_SUITE = ROOT / ".cache" / "aiokafka-suite"
AIOKAFKA_REPOSITORY = "https://github.com/aio-libs/aiokafka.git"
POM = ROOT / "tests" / "outside" / "kafka.pom.xml"
SPARK_POM = POM.with_name("spark.pom.xml")
STREAMS_POM = POM.with_name("streams.pom.xml")
TOOLS_POM = POM.with_name("tools.pom.xml")
MIRROR_POM = POM.with_name("mirror.pom.xml")
PYTHON = str(ROOT / ".venv" / "bin" / "python")
PIP = [PYTHON, "-m", "pip", "--disable-pip-version-check", "--quiet"]
# What kafka-python and aiokafka compress with.
CODECS = ("lz4", "python-snappy", "zstandard", "crc32c")
# aiokafka itself comes from the package index: its sources beside the tests would be imported instead.
SUITE_FILES = ("tests", "pyproject.toml")
COPY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"

# Prefixes of the jars that are moved last, and mark a folder as complete.
MARKS = ("kafka_2.1", "spark-sql-kafka", "kafka-streams", "kafka-tools-4", "connect-mirror-3")

# Compose is in no package of Debian 12.
COMPOSE = ROOT / ".cache" / "docker" / "client" / "cli-plugins" / "docker-compose"

PACKAGES = {"kcat": "kcat", "java": "default-jre-headless", "mvn": "maven", "strace": "strace", "ip": "iproute2"}


def main(arguments: list[str]) -> None:
    match arguments:
        case ["tests"]:
            install_programs()
            if shutil.which("mvn"):
                fetch_kafka(versions.APACHE_KAFKA)
                fetch_kafka(versions.OLDER_APACHE_KAFKA)
                run([PYTHON, "-m", "tests.outside.class_archives"], {**os.environ, "PYTHONPATH": str(ROOT)})
                fetch_newest()
                fetch_tools_if_there()
                fetch_clients(versions.OLDEST_JAVA_CLIENT)
                fetch_originals()
                fetch_mirror(versions.APACHE_KAFKA)
                fetch_spark(versions.OLDEST_PYSPARK)
                fetch_connector()
            fetch_python_clients()
            if has_go():
                fetch_franz_go()
        case ["cluster"]:
            install_programs(("java", "mvn"))
            fetch_kafka(versions.APACHE_KAFKA)
        case ["kafka", version]:
            fetch_kafka(version)
        case ["newest"]:
            fetch_newest()
        case ["streams"]:
            for version in versions.KAFKA_STREAMS:
                fetch_streams(version)
        case ["tools"]:
            fetch_tools(versions.NEWEST_APACHE_KAFKA)
        case ["mirror"]:
            fetch_mirror(versions.APACHE_KAFKA)
        case ["python-clients"]:
            fetch_python_clients()
        case ["originals"]:
            fetch_originals()
        case ["clients", version]:
            fetch_clients(version)
        case ["spark", version]:
            fetch_spark(version)
        case ["connector"]:
            fetch_connector()
        case ["franz-go"]:
            fetch_franz_go()
        case ["quixstreams"]:
            fetch_environment(QUIXSTREAMS, *own_requirements(), *versions.QUIXSTREAMS)
        case ["aiokafka-suite"]:
            fetch_aiokafka_suite()
        case ["docker"]:
            fetch_docker()
        case _:
            sys.exit(__doc__)


DOCKER_PACKAGES = {
    "dockerd": "docker.io",
    "debootstrap": "debootstrap",
    "iptables": "iptables",
    "ip": "iproute2",
    "kcat": "kcat",
    "curl": "curl",
}


def install_programs(wanted: Iterable[str] = PACKAGES, packages: Mapping[str, str] = PACKAGES) -> None:
    missing = [packages[program] for program in wanted if shutil.which(program) is None]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        advice = f"missing: {', '.join(missing)}; tests that need them are skipped (apt-get install them as root)"
        sys.exit(advice) if os.environ.get("CI") else print(advice, file=sys.stderr)
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]
    run([*apt, "update"], environment)
    run([*apt, "install", "-y", "--no-install-recommends", *missing], environment)


def fetch_kafka(version: str, *options: str) -> None:
    """Apache Kafka's server and tools of one release with all they depend on."""
    fetch_dependencies(JARS / version / "lib", versions.server_jar(version), POM, version, *options)


def fetch_newest() -> None:
    """The newest release: its server, the definitions of its messages and its client."""
    fetch_kafka(versions.NEWEST_APACHE_KAFKA, "-Dwithout.tools")


def fetch_originals() -> None:
    """The old producer, the ZooKeeper consumer and their tools, which are in the server's jar."""
    scala = f"-Dscala.version={versions.scala_of(versions.ORIGINAL_CLIENTS)}"
    fetch_kafka(versions.ORIGINAL_CLIENTS, "-Dwithout.tools", scala)


def fetch_clients(version: str) -> None:
    folder = JARS / version / "lib"
    if (folder / f"kafka-clients-{version}.jar").exists():
        return
    fetch(folder, [*maven(), f"-Dartifact=org.apache.kafka:kafka-clients:{version}", f"{COPY_PLUGIN}:copy"])


def fetch_streams(version: str) -> None:
    """Kafka Streams of one release with all that it needs."""
    fetch_dependencies(STREAMS / version / "lib", f"kafka-streams-{version}.jar", STREAMS_POM, version)


def fetch_tools(version: str) -> None:
    """The command-line tools of one release with all that they need."""
    fetch_dependencies(TOOLS / version / "lib", f"kafka-tools-{version}.jar", TOOLS_POM, version)


def fetch_tools_if_there() -> None:
    """Not every repository has the tools of the newest release: without them their test is skipped, but not in CI."""
    try:
        fetch_tools(versions.NEWEST_APACHE_KAFKA)
    except SystemExit as failure:
        if os.environ.get("CI"):
            raise
        print(f"the newest tools are left out: {failure}", file=sys.stderr)


def fetch_mirror(version: str) -> None:
    """MirrorMaker 2 of one release, with Kafka Connect that runs it."""
    fetch_dependencies(MIRROR / version / "lib", f"connect-mirror-{version}.jar", MIRROR_POM, version)


def fetch_dependencies(folder: Path, jar: str, pom: Path, version: str, *options: str) -> None:
    """What a POM names in one release of Apache Kafka, unless `jar` is there: it is one of them."""
    if (folder / jar).exists():
        return
    goal = f"{COPY_PLUGIN}:copy-dependencies"
    fetch(folder, [*maven(), "-f", str(pom), f"-Dkafka.version={version}", "-DincludeScope=runtime", *options, goal])


def fetch_python_clients() -> None:
    """The oldest Python clients that the tests run, as wheels: nothing is compiled."""
    if sys.version_info[:2] > versions.OLDEST_CLIENTS_PYTHON:
        last = ".".join(map(str, versions.OLDEST_CLIENTS_PYTHON))
        print(f"the oldest Python clients are left out: they have wheels up to Python {last}", file=sys.stderr)
        return
    wanted = [f"{name}=={version}" for name, version in versions.OLDEST_PYTHON_CLIENTS.items()]
    fetch_environment(PYTHON_CLIENTS, "--only-binary=:all:", *wanted, *CODECS)


def fetch_environment(folder: Path, *requirements: str) -> None:
    """Packages in an environment of their own, `venv` in the folder, made again when other ones are wanted."""
    mark, text = folder / "installed", " ".join(one for one in requirements if not one.startswith("--"))
    if mark.exists() and mark.read_text(encoding="utf-8") == text:
        return
    shutil.rmtree(folder, ignore_errors=True)
    install(folder / "venv", *requirements)
    mark.write_text(text, encoding="utf-8")


def own_requirements() -> list[str]:
    """What Sordini itself needs, for environments that import it from this repository."""
    found: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    return found


def fetch_aiokafka_suite() -> None:
    """The tests of one release, and an environment with that release and what its tests import.

    The commit's id is a checksum of all that is in it: a repository that answers with anything else is of no use.
    """
    fetch_environment(AIOKAFKA_SUITE / "environment", *own_requirements(), *versions.AIOKAFKA_SUITE)
    commit = versions.AIOKAFKA_SUITE_COMMIT
    source = AIOKAFKA_SUITE / commit
    if source.exists():
        return
    repository = os.environ.get("AIOKAFKA_REPOSITORY") or AIOKAFKA_REPOSITORY
    arriving = source.with_name(f"{commit}.arriving-{os.getpid()}")
    print(f"fetching {source.relative_to(ROOT)} from {repository}", file=sys.stderr)
    arriving.mkdir(parents=True)
    try:
        for words in (["init"], ["fetch", "--depth=1", repository, commit], ["checkout", commit, "--", *SUITE_FILES]):
            run(["git", "-C", str(arriving), words[0], "--quiet", *words[1:]], dict(os.environ))
        arriving.replace(source)
    finally:
        shutil.rmtree(arriving, ignore_errors=True)


def fetch_franz_go() -> None:
    """The modules of the Go example of docs/control.md, as the test of it names them."""
    if not has_go():
        sys.exit(f"there is no Go {versions.GO} or newer on the path")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "go.mod").write_text(versions.go_module(), encoding="utf-8")
        run(["go", "-C", folder, "mod", "download", "all"], {**os.environ, "GOFLAGS": "-mod=mod"})


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


def existing(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def has_go() -> bool:
    """Whether a Go is here that can build the module. Nothing installs one: it is newer than that of most systems."""
    go = shutil.which("go")
    if go is None:
        return False
    found = subprocess.run([go, "env", "GOVERSION"], check=False, capture_output=True, text=True).stdout  # noqa: S603
    number = re.match(r"go(\d+)\.(\d+)", found)
    return number is not None and tuple(map(int, number.groups())) >= tuple(map(int, versions.GO.split(".")))


def fetch_spark(version: str) -> None:
    """PySpark, which holds Spark itself, in its own environment, then the jars of its Kafka source."""
    folder = SPARK / version / "lib"
    if (folder / f"spark-sql-kafka-0-10_2.13-{version}.jar").exists():
        return
    install(SPARK / version / "venv", f"pyspark=={version}")
    goal = f"{COPY_PLUGIN}:copy-dependencies"
    fetch(folder, [*maven(), "-f", str(SPARK_POM), f"-Dspark.version={version}", "-DincludeScope=runtime", goal])


def install(environment: Path, *requirements: str) -> None:
    """Install packages into their own environment."""
    print(f"installing {' '.join(requirements)} into {environment.relative_to(ROOT)}", file=sys.stderr)
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)], dict(os.environ))
    python = str(environment / "bin" / "python")
    run([*PIP, "--python", python, "install", "--no-compile", *requirements], dict(os.environ))


def fetch_connector() -> None:
    """The jars of `pipeline.jars.LOCKED`, each byte of them as locked."""
    sys.path.insert(0, str(ROOT / ".import"))
    from sordini.pipeline.jars import LOCKED

    for jar in LOCKED:
        if not (CONNECTOR / jar.file_name).exists():
            fetch(CONNECTOR, [*maven(), f"-Dartifact={jar.coordinate}", f"{COPY_PLUGIN}:copy"], jar.sha256)


def maven() -> list[str]:
    if shutil.which("mvn") is None:
        sys.exit("Maven is missing: `apt-get install maven` installs it")
    return ["mvn", "--batch-mode", "--no-transfer-progress", "--quiet", "-Dstyle.color=never"]


def fetch(folder: Path, command: list[str], sha256: str = "") -> None:
    """Let Maven fill a folder beside the final one, then rename, so that no partial download is used."""
    arriving = folder.with_name(f"{folder.name}.arriving-{os.getpid()}")
    print(f"fetching {folder.relative_to(ROOT)}", file=sys.stderr)
    try:
        run([*command, f"-DoutputDirectory={arriving}"], dict(os.environ))
        folder.mkdir(parents=True, exist_ok=True)
        for jar in sorted(arriving.iterdir(), key=lambda jar: jar.name.startswith(MARKS)):
            if sha256 and hashlib.sha256(jar.read_bytes()).hexdigest() != sha256:
                sys.exit(f"{jar.name} is not the file in pipeline/jars/lock.py: its SHA-256 differs")
            jar.replace(folder / jar.name)  # The marking jars last.
    finally:
        shutil.rmtree(arriving, ignore_errors=True)


def run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, check=False, env=environment, stdin=subprocess.DEVNULL)  # noqa: S603
    if done.returncode != 0:
        sys.exit(f"failed with status {done.returncode}: {' '.join(command)}")


if __name__ == "__main__":
    main(sys.argv[1:])
