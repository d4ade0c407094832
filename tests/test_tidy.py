"""The rules of the house (STYLE.md), as tests. Each finding names the place, the rule and the cure."""

from __future__ import annotations

import ast
import gc
import io
import re
import subprocess
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from sordini.cli.__main__ import COMMANDS, module_of

ROOT = Path(__file__).resolve().parents[1]

# From the top down: each may import those after it, never those before.
LAYERS = (
    "pipeline",
    "testing",
    "console",
    "registry",
    "cli",
    "admin",
    "doctor",
    "mirror",
    "packs",
    "broker",
    "coordination_store",
    "schemas",
    "replication",
    "storage",
    "client",
    "protocol",
    "system",
)
BESIDE_THE_BROKER = ("pipeline", "doctor", "mirror", "packs", "schemas", "testing", "console", "registry")
"""Seven run in processes of their own, testing makes the ports of its brokers: they open files and sockets, and read the time."""

# The deciders: same input, same output. What they need of the world comes in as an argument.
DECIDERS = "Deciders reach nothing of the world, not even through others"


@cache
def contract() -> dict[str, Any]:
    """The import contract that names the deciders, in pyproject.toml."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found: dict[str, Any] = next(one for one in contracts if one["name"] == DECIDERS)
    return found


def pure_modules() -> list[str]:
    return [name.removeprefix("sordini.") for name in contract()["source_modules"]]


# Who may touch the world, and how that shows in source code.
OPENS_FILES = frozenset(
    {"storage.disk", "coordination_store.database", "system.files", "system.machine"}
)  # The second through SQLite.
OPENS_SOCKETS = (
    "broker.network",
    "system.resolver",
    "system.sockets",
    "client.sockets",
    "client.blocking",
    "client.tls",
    "broker.security.tls",
    "admin.schema_registry.exchange",  # HTTP, in the processes of commands and of the console.
    "cli.common.web_server",  # Of the console and of the registry, in processes of their own.
)
READS_TIME = frozenset(
    {
        "client.blocking_link",  # For programs beside the broker, as the next.
        "client.cluster",
        "system.clock",
        "storage.compaction.child",  # A process of its own, as the next.
        "broker.records.jobs.child",
        "system.processes",  # Waits with a timeout where no system call does.
    }
)
FILE_CALLS = frozenset({"read_text", "write_text", "read_bytes", "write_bytes", "fdopen", "mkstemp"})
TIME_MODULES = frozenset({"time", "datetime"})


def is_beside_the_broker(module: str) -> bool:
    return any(is_in(module, room) for room in BESIDE_THE_BROKER)


# Reached by name: the command, and the commands below it that its table names.
ENTRY_POINTS = frozenset(
    {
        "cli.entry",
        "cli.__main__",
        "pipeline.tables.iceberg.azure_files",
        "pipeline.tables.iceberg.retries",
        "testing.plugin",
        "testing.control.child",
        "storage.compaction.child",
        "broker.records.jobs.child",
        "broker.records.schemas.decoding_child",
        "broker.metrics.telemetry.child",
        "broker.metrics.tracing.child",
        "registry.judging.child",
    }
    | set(map(module_of, COMMANDS))
)
# Where any exception is turned into an answer.
FENCE = frozenset(
    {"broker.requests.dispatch", "broker.requests.call", "broker.requests.long_requests", "registry.http.application"}
)

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400
COLLABORATORS_MAX = 7


class Source(NamedTuple):
    """One Python file of the package; `module` is its name below `sordini`."""

    path: Path
    module: str
    text: str
    tree: ast.Module

    def at(self, node: ast.AST | int) -> str:
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return f"{self.path.relative_to(ROOT)}:{line}"


@cache
def tracked() -> tuple[Path, ...]:
    """The files that are, or would be, in the repository; links are not followed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = (ROOT / name for name in sorted(set(listed)))
    return tuple(path for path in paths if path.is_file() and not path.is_symlink())


@cache
def sources() -> tuple[Source, ...]:
    found = []
    for path in tracked():
        parts = path.relative_to(ROOT).with_suffix("").parts
        if path.suffix == ".py" and parts[0] in LAYERS:
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append(Source(path, module, path.read_text(encoding="utf-8"), parsed(path)))
    return tuple(found)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


N = TypeVar("N", bound=ast.AST)
HAS_NO_NODES_OF_INTEREST = frozenset({ast.Name, ast.Constant, ast.alias})


@cache
def by_kind(tree: ast.Module) -> dict[type[ast.AST], list[Any]]:
    """All nodes but contexts and names of an import: a walk costs more than to read the file, so there is one."""
    found: dict[type[ast.AST], list[Any]] = defaultdict(list)
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        kind = type(node)
        found[kind].append(node)
        if kind not in HAS_NO_NODES_OF_INTEREST:
            for name in node._fields:
                child = getattr(node, name, None)
                if type(child) is list:
                    waiting += [item for item in child if isinstance(item, ast.AST)]
                elif isinstance(child, ast.AST) and not isinstance(child, ast.expr_context):
                    waiting.append(child)
    return found


def nodes(tree: ast.Module, *kinds: type[N]) -> list[N]:
    """Every node of these kinds, in the order of their lines."""
    found: list[N] = [node for kind in kinds for node in by_kind(tree).get(kind, ())]
    return sorted(found, key=lambda node: getattr(node, "lineno", 0))


@pytest.fixture(scope="module", autouse=True)
def trees_are_let_go() -> Iterator[None]:
    """Millions of nodes would slow the garbage collector, in all tests that come after these, too; they have no cycles."""
    collects = gc.isenabled()
    gc.disable()
    yield
    for kept in (sources, parsed, by_kind, imports, parts_of):
        kept.cache_clear()
    if collects:
        gc.enable()


@cache
def imports(tree: ast.Module) -> tuple[tuple[ast.stmt, str], ...]:
    """Every imported name in full, `from a import b` as `a.b`."""
    found: list[tuple[ast.stmt, str]] = [(node, alias.name) for node in nodes(tree, ast.Import) for alias in node.names]
    for node in nodes(tree, ast.ImportFrom):
        start = "." * node.level + (node.module or "")
        found += [(node, f"{start}.{alias.name}") for alias in node.names]
    return tuple(found)


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return nodes(tree, ast.FunctionDef, ast.AsyncFunctionDef)


def comments(text: str) -> dict[int, str]:
    """Line number -> the comment on it."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def none_of(findings: list[str], cure: str) -> None:
    if findings:
        pytest.fail("\n".join([*findings, f"Cure: {cure}"]), pytrace=False)


def test_imports_go_down_the_layers_and_never_up() -> None:
    findings = [
        f"{source.at(node)} {source.module} imports {name}"
        for source in sources()
        for node, name in imports(source.tree)
        for above in LAYERS[: LAYERS.index(source.module.split(".")[0])]
        if is_in(name, f"sordini.{above}")
    ]
    none_of(findings, "let the lower layer declare a port (a Protocol) and have the upper one hand it in")


OF_THE_DOCUMENTS_CLIENTS = (
    "sordini.client",
    "sordini.protocol",
    "sordini.replication.cluster_model",
    "sordini.replication.metadata_store",
)


def test_the_documents_clients_use_nothing_of_the_broker() -> None:
    folder = ROOT / "examples" / "heritage"
    files = [path for path in tracked() if path.is_relative_to(folder) and path.suffix == ".py"]
    assert files
    findings = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {name}"
        for path in files
        for node, name in imports(parsed(path))
        if is_in(name, "sordini") and not any(is_in(name, room) for room in OF_THE_DOCUMENTS_CLIENTS)
    ]
    none_of(findings, "they are an example, not a part of the package: what they need of a broker is on the wire")


def test_modules_are_imported_by_their_full_names() -> None:
    # Most files have no such line, in whatever form, and are not parsed.
    suspect = re.compile(rf"\bimport\b.*\b(?:{'|'.join(LAYERS)})\b|\bfrom\s+(?:\.|{'|'.join(LAYERS)})|\bimport\s*\\")
    findings = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {name}"
        for path in tracked()
        if path.suffix == ".py" and suspect.search(path.read_text(encoding="utf-8"))
        for node, name in imports(parsed(path))
        if name.startswith(".") or name.split(".")[0] in LAYERS
    ]
    none_of(findings, "write `sordini.<layer>...`: the short name makes a second copy of the module and its classes")


def test_deciders_import_nothing_of_the_world() -> None:
    findings = [
        f"{source.at(node)} {source.module} is pure and imports {name}"
        for source in sources()
        if any(is_in(source.module, pure) for pure in pure_modules())
        for node, name in imports(source.tree)
        if name.split(".")[0] in contract()["forbidden_modules"]
    ]
    none_of(findings, "take time, randomness and input as arguments; return what is to be done")


def test_every_module_called_pure_exists() -> None:
    modules = {source.module for source in sources()}
    none_of(
        [name for name in pure_modules() if name not in modules],
        "correct the contract in pyproject.toml after a renaming",
    )


def test_files_are_opened_only_behind_the_disk_port() -> None:
    findings = [
        f"{source.at(node)} {ast.unparse(node.func)}(...)"
        for source in sources()
        if source.module not in OPENS_FILES and not is_beside_the_broker(source.module)
        for node in nodes(source.tree, ast.Call)
        if opens_a_file(node.func)
    ]
    none_of(findings, "go through a Disk (storage/disk.py), so that tests can make it fail and forget")


def opens_a_file(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id == "open"
    if isinstance(called, ast.Attribute):
        owner = called.value.id if isinstance(called.value, ast.Name) else ""
        return called.attr in FILE_CALLS or (called.attr == "open" and owner in {"os", "io"})
    return False


def test_sockets_are_opened_only_in_the_network_package_and_the_clients_shells() -> None:
    findings = [
        f"{source.at(node)} imports {name}"
        for source in sources()
        if not any(is_in(source.module, opener) for opener in (*OPENS_SOCKETS, *BESIDE_THE_BROKER))
        for node, name in imports(source.tree)
        if name.split(".")[0] in {"socket", "ssl", "selectors", "socketserver"}
    ]
    none_of(
        findings,
        "go through the ports of broker/network or the shells of client/, so that the simulated network can stand in",
    )


def test_time_is_read_only_by_the_clock() -> None:
    findings = [
        f"{source.at(node)} imports {name}"
        for source in sources()
        if source.module not in READS_TIME and not is_beside_the_broker(source.module)
        for node, name in imports(source.tree)
        if name.split(".")[0] in TIME_MODULES
    ]
    findings += [
        f"{source.at(node)} asks the event loop for the time"
        for source in sources()
        for node in nodes(source.tree, ast.Call)
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func).endswith("loop.time")
        if source.module not in READS_TIME and not is_beside_the_broker(source.module)
    ]
    none_of(findings, "take a Clock (system/clock.py), or the time itself, as an argument")


def test_functions_are_short() -> None:
    findings = [
        f"{source.at(function)} {function.name} has {lines} lines"
        for source in sources()
        for function in functions(source.tree)
        if (lines := body_lines(function)) > FUNCTION_LINES_MAX
    ]
    none_of(findings, f"split it: {FUNCTION_LINES_MAX} lines are the limit, 25 are long already")


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement after the docstring to the last."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_files_are_short() -> None:
    findings = [
        f"{source.at(1)} has {lines} lines"
        for source in sources()
        if (lines := source.text.count("\n")) > FILE_LINES_MAX
    ]
    none_of(findings, f"find the second idea in it and give it a module: {FILE_LINES_MAX} lines are the limit")


def test_constructors_take_few_collaborators() -> None:
    findings = [
        f"{source.at(function)} takes {count}"
        for source in sources()
        for function in functions(source.tree)
        if function.name == "__init__"
        and (count := len(function.args.args) + len(function.args.kwonlyargs) - 1) > COLLABORATORS_MAX
    ]
    none_of(findings, f"more than {COLLABORATORS_MAX} means a noun is missing: name it and pass it as one")


# Words of our own for things that have a name; STYLE.md, Words, has what to write instead.
OUR_OWN_WORDS = frozenset(
    {"anew", "anybody", "condemned", "everybody", "hear", "heard", "hears", "myself", "nobody", "parting"}
    | {"reign", "reigned", "reigns", "somebody", "surroundings", "told", "whoever", "wish", "wished", "wishes"}
)
OUR_OWN_WORDS_IN_THE_PRODUCT = OUR_OWN_WORDS | {"look", "looks", "tells", "turn", "turns"}
"""Tests look indexes up and take turns in measurements."""
VAGUE_IN_PUBLIC_NAMES = OUR_OWN_WORDS_IN_THE_PRODUCT | {
    *("away", "beats", "children", "dead", "lost", "newest", "parked", "pure", "put", "thrown", "waiting", "weak")
}
"""A key or a metric is read by operators who do not know this code."""
PUBLIC_NAME = re.compile(r"sordini(?:\.[a-z]+)+|sordini(?:_[a-z]+)+")
MAY_BE_VAGUE = frozenset({"sordini_coordination_store_lost", "sordini_record_jobs_waiting"})
"""What is lost, or waits, is said."""
PARTS_OF_A_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def identifiers(path: Path) -> Iterator[tuple[int, str]]:
    """Every name that the file defines or uses, and that of the module itself, with its line."""
    yield 1, path.stem
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def words_for(path: Path) -> frozenset[str]:
    return OUR_OWN_WORDS_IN_THE_PRODUCT if path.relative_to(ROOT).parts[0] in LAYERS else OUR_OWN_WORDS


@cache
def parts_of(name: str) -> frozenset[str]:
    return frozenset(part.lower() for part in PARTS_OF_A_NAME.findall(name))


def test_names_are_the_field_s_words() -> None:
    findings = []
    for path in tracked():
        if path.suffix != ".py":
            continue
        words = words_for(path)
        # Prose included, of which most files have none of these words either: those are not split into tokens.
        text = f"{path.stem} {path.read_text(encoding='utf-8')}"
        if any(words & parts_of(name) for name in set(re.findall(r"\w+", text))):
            found = sorted(set(identifiers(path)))
            findings += [f"{path.relative_to(ROOT)}:{line} {name}" for line, name in found if words & parts_of(name)]
    none_of(findings, "STYLE.md, Words, has the field's word for it")


VAGUE_PARAMETERS = frozenset({"least", "nothing", "one", "shown", "what"})
NAMED_PARAMETERS = (
    *(
        f"broker.{room}"
        for room in ("configuration", "metrics", "network", "process", "requests", "security", "wiring")
    ),
    "coordination_store",
)
"""Rooms without vague parameters."""


def test_parameters_say_what_they_are() -> None:
    findings = [
        f"{source.at(node.lineno)} {node.arg}"
        for source in sources()
        if any(is_in(source.module, room) for room in NAMED_PARAMETERS)
        for node in nodes(source.tree, ast.arg)
        if node.arg in VAGUE_PARAMETERS
    ]
    none_of(findings, "a parameter's name is the noun of what is passed")


def test_names_of_keys_and_metrics_say_what_they_are() -> None:
    findings = []
    for source in sources():
        if source.module == "broker.configuration.renamed_keys":
            continue
        for node in nodes(source.tree, ast.Constant):
            if isinstance(node.value, str) and PUBLIC_NAME.fullmatch(node.value):
                vague = VAGUE_IN_PUBLIC_NAMES & parts_of(node.value)
                if vague and node.value not in MAY_BE_VAGUE:
                    findings.append(f"{source.at(node.lineno)} {node.value}: {', '.join(sorted(vague))}")
    none_of(findings, "name it as an operator would; a key keeps its former name in configuration/renamed_keys.py")


def test_nothing_is_left_for_later() -> None:
    mark = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b|\bNotImplementedError\b")
    findings = [
        f"{source.at(number)} {line.strip()}"
        for source in sources()
        for number, line in enumerate(source.text.splitlines(), 1)
        if mark.search(line)
    ]
    none_of(findings, "do it now, or leave it out and say so in the documentation")


def test_only_the_fence_catches_everything() -> None:
    findings = []
    for source in sources():
        catching = [node for node in nodes(source.tree, ast.ExceptHandler) if catches_everything(node.type)]
        said = comments(source.text) if catching else {}
        for node in catching:
            reason = said.get(node.lineno, "").partition(" - ")[2]
            if source.module not in FENCE and not reason:
                findings.append(f"{source.at(node)} {source.text.splitlines()[node.lineno - 1].strip()}")
    none_of(findings, "catch what can happen by name; if it must be all, `# noqa: BLE001 - why` on that very line")


def catches_everything(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(catches_everything(one) for one in caught.elts)
    return caught is None or ast.unparse(caught) in {"Exception", "BaseException"}


def test_cancellations_are_passed_on() -> None:
    """Until Python 3.12 `wait_for` returns a result that comes together with a cancellation, which is lost then."""
    findings = []
    for source in sources():
        calls = nodes(source.tree, ast.Call) if "wait_for" in source.text else []
        findings += [source.at(call) for call in calls if ast.unparse(call.func) == "asyncio.wait_for"]
    none_of(findings, "await inside of `asyncio.timeout`")


def test_every_module_is_used() -> None:
    imported = {
        name.removeprefix("sordini.")
        for path in (*tracked(),)
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] != "tests"
        for _, name in imports(parsed(path))
    }
    # `from sordini.a import b` may name the module a.b or something inside a.
    imported |= {name.rpartition(".")[0] for name in imported}
    findings = [
        source.at(1)
        for source in sources()
        if source.path.name != "__init__.py" and source.module not in imported | ENTRY_POINTS
    ]
    none_of(findings, "nothing imports it: use it or remove it")


def test_no_tracked_file_names_a_machine() -> None:
    # Written in pieces, so that this file does not find itself.
    places = ["/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/far" + "m/", "/t" + "mp/"]
    hosts = [
        "py" + "pi.org",
        "python" + "hosted.org",
        "repo1." + "maven",
        "repo.maven." + "apache",
        "deb." + "debian.org",
    ]
    mark = re.compile(r"(?<![\w.$}~])(?:" + "|".join(map(re.escape, places)) + ")|" + "|".join(map(re.escape, hosts)))
    findings = []
    for path in tracked():
        text = path.read_bytes().decode(errors="replace")
        for number, line in enumerate(text.splitlines() if mark.search(text) else (), 1):
            if mark.search(line):
                findings.append(f"{path.relative_to(ROOT)}:{number} {line.strip()[:120]}")
    none_of(findings, "a checkout lies anywhere: use paths relative to it, tmp_path in tests, the tools' own settings")


def test_unit_tests_neither_sleep_nor_mock() -> None:
    findings = []
    for path in (ROOT / "tests").rglob("*.py"):
        if not re.search(r"unittest|sleep", path.read_text(encoding="utf-8")):
            continue
        tree = parsed(path)
        where = path.relative_to(ROOT)
        findings += [f"{where}:{node.lineno} {name}" for node, name in imports(tree) if name.startswith("unittest")]
        if where.is_relative_to("tests/unit"):
            calls = [node for node in nodes(tree, ast.Call) if isinstance(node.func, ast.Attribute)]
            findings += [f"{where}:{node.lineno} {ast.unparse(node)}" for node in calls if really_sleeps(node)]
    none_of(findings, "advance a fake clock, await the event itself, hand in a fake of the port")


def really_sleeps(call: ast.Call) -> bool:
    """`asyncio.sleep(0)` only lets others run."""
    is_sleep = ast.unparse(call.func) in {"time.sleep", "asyncio.sleep"}
    return is_sleep and [ast.unparse(argument) for argument in call.args] != ["0"]


def test_the_page_of_apis_lists_the_requests_that_are_served() -> None:
    from sordini.protocol.api_keys import ApiKey
    from sordini.protocol.served_apis import APIS

    rows = re.findall(
        r"^\| *`?([A-Za-z]+)`? *\|(.*)\|$", (ROOT / "docs" / "apis.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    names = {key.name.replace("_", ""): key.name for key in ApiKey}
    listed = {
        names[name.upper()]: (int(found[1]), int(found[2]))
        for name, cells in rows
        if name.upper() in names and (found := re.search(r"\b(\d+)(?: *(?:-|to) *)(\d+)\b", cells))
    }
    served = {ApiKey(key).name: (api.min_version, api.max_version) for key, api in APIS.items()}
    findings = [
        f"docs/apis.md says {listed.get(name, 'nothing')} of {name}, protocol/served_apis.py {served.get(name, 'nothing')}"
        for name in sorted(listed.keys() | served.keys())
        if listed.get(name) != served.get(name)
    ]
    none_of(findings, "docs/apis.md has one table row for each: `| Produce | 0-13 |`")


def test_every_configuration_key_is_in_the_properties_file() -> None:
    from sordini.broker.configuration.config import Config
    from sordini.broker.configuration.settings import settings_of

    # A key whose default is "not set" stands there commented out, hence the optional mark.
    text = (ROOT / "config" / "server.properties").read_text(encoding="utf-8")
    listed = set(re.findall(r"^#?([a-z][\w.]*\.[\w.]*|[a-z]\w*)=", text, re.MULTILINE))
    declared = set(settings_of(Config))
    findings = [f"{key} is declared and not listed" for key in sorted(declared - listed)]
    findings += [f"{key} is listed and not declared" for key in sorted(listed - declared)]
    none_of(
        findings,
        "config/server.properties lists every key of broker/configuration/config.py with its default and meaning",
    )


LINUX_ROOM = "system"
LINUX_NAMES = frozenset(
    # os
    {"copy_file_range", "epoll", "eventfd", "fdatasync", "getxattr", "memfd_create", "pidfd_open", "posix_fadvise"}
    | {
        "posix_fallocate",
        "prlimit",
        "pwritev",
        "sched_getaffinity",
        "sched_setaffinity",
        "sendfile",
        "setns",
        "setxattr",
    }
    | {"splice", "sysinfo", "timerfd_create", "unshare", "waitid", "O_DIRECT", "O_TMPFILE", "MFD_CLOEXEC", "RWF_NOWAIT"}
    # signal, resource, fcntl
    | {"pidfd_send_signal", "sigtimedwait", "sigwaitinfo", "PR_SET_PDEATHSIG", "RLIMIT_AS", "RLIMIT_NOFILE"}
    | {"F_GETLK", "F_FULLFSYNC", "F_SETPIPE_SZ", "fallocate"}
    # socket
    | {"MSG_MORE", "SO_INCOMING_CPU", "SO_REUSEPORT", "TCP_CORK", "TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_QUICKACK"}
    | {"TCP_USER_TIMEOUT", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "accept4", "sock_sendfile"}
)
"""Names that another POSIX system lacks, or has with another meaning."""
OURS_TOO = frozenset({"sendfile"})
"""Methods of ports with the name of a call: only as an attribute of a module are they the system's."""
FULL_SYNC_ROOMS = ("storage", "broker", "coordination_store", "replication", "client", "cli", "protocol")
"""There `os.fsync` would stop at the drive's cache on macOS."""


def linux_only(source: Source, node: ast.AST) -> str | None:
    """What a node uses that only Linux has; None for nothing."""
    if isinstance(node, ast.Attribute):
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        if (owner, node.attr) == ("os", "fsync") and source.module.startswith(FULL_SYNC_ROOMS):
            return "os.fsync"
        if node.attr in LINUX_NAMES and (node.attr not in OURS_TOO or owner == "os"):
            return node.attr
        return "sys.platform" if (owner, node.attr) == ("sys", "platform") else None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = node.value
        if found in LINUX_NAMES - OURS_TOO or found.startswith(("/proc/", "/sys/")):
            return repr(found)
    return None


def test_what_only_linux_has_is_called_in_one_room() -> None:
    findings = [
        f"{source.at(node)} {name}"
        for source in sources()
        if not is_in(source.module, LINUX_ROOM)
        for node in nodes(source.tree, ast.Attribute, ast.Constant)
        if (name := linux_only(source, node)) is not None
    ]
    none_of(findings, f"put the call into {LINUX_ROOM}/, with a portable way beside it and a row in its table")
