"""Create `.venv` and install Sordini into it: `python3 scripts/venv.py [--into FOLDER] [GROUP...]`.

Needs only Python's standard library. Debian's python3 has no `ensurepip`, so pip is searched in
this order:

1. `ensurepip`, where the Python has it;
2. an installed pip, with `--python` of the new environment;
3. the package index this machine's pip settings name (`PIP_INDEX_URL`, or a pip.conf), whose page
   has the checksum of the wheel;
4. Debian's own package of pip's wheel, fetched and checked by apt into a temporary folder. This works
   without root and does not change the system.

FOLDER is an environment elsewhere; GROUP is a dependency group of pyproject.toml, e.g. `tests`. It can be run again at
any time, and installs what is missing.
"""

from __future__ import annotations

import configparser
import hashlib
import importlib.util
import os
import re
import ssl
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The first pip that understands the dependency groups of pyproject.toml.
PIP_WANTED = "pip>=25.1"


def main(groups: list[str]) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - the check for older Pythons.
        sys.exit(f"Sordini needs Python 3.11 or newer, and {sys.executable} is {sys.version.split()[0]}")
    folder = ROOT / ".venv"
    if groups[:1] == ["--into"]:
        folder, groups = Path(groups[1]), groups[2:]
    python = folder / "bin" / "python"
    print(f"installing Sordini into {os.path.relpath(folder, ROOT)}", file=sys.stderr)
    if not python.exists():
        run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    if not has_pip(python):
        bootstrap_pip(python)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run([*pip, "install", PIP_WANTED])
    chosen = [word for group in groups for word in ("--group", group)]
    run([*pip, "install", "--editable", str(ROOT), *chosen])
    compile_package(python)


def compile_package(python: Path, root: Path = ROOT) -> None:
    """Compile our modules now, as pip has compiled those of libraries: the first start would take seconds for it."""
    import tomllib  # Late: an older Python is told so by `main`.

    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    names = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    # By the path by which they are imported.
    folders = [str(root / ".import" / "sordini" / name) for name in names if (root / name).is_dir()]
    run([str(python), "-m", "compileall", "-q", "-j", "0", *folders])


def run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, cwd=ROOT, stdin=subprocess.DEVNULL)  # noqa: S603
    except subprocess.CalledProcessError as error:
        sys.exit(f"failed with status {error.returncode}: {' '.join(command)}")


def has_pip(python: Path) -> bool:
    return succeeds([str(python), "-m", "pip", "--version"])


def succeeds(command: list[str]) -> bool:
    quiet = subprocess.DEVNULL
    return subprocess.run(command, check=False, stdout=quiet, stderr=quiet, stdin=quiet).returncode == 0  # noqa: S603


def bootstrap_pip(python: Path) -> None:
    """Bring any pip into the environment; a newer one takes its place at once."""
    if importlib.util.find_spec("ensurepip") and succeeds([str(python), "-m", "ensurepip"]):
        return
    # `--python` came with pip 22.3; an older pip fails here and the next way is taken.
    if succeeds([sys.executable, "-m", "pip", "--python", str(python), "install", PIP_WANTED]):
        return
    with tempfile.TemporaryDirectory() as folder:
        wheel = wheel_from_index(Path(folder)) or wheel_from_debian(Path(folder))
        # A wheel is an archive that Python can run modules from.
        run([str(python), f"{wheel}/pip", "install", "--quiet", "--disable-pip-version-check", PIP_WANTED])


def wheel_from_index(folder: Path) -> Path | None:
    """The newest pip wheel of the configured package index; None where none is configured or answers."""
    index = configured_index()
    if index is None:
        return None
    try:
        return download_wheel(index, folder)
    except OSError as error:
        print(f"the package index {index} did not answer: {error}", file=sys.stderr)
        return None


def download_wheel(index: str, folder: Path) -> Path:
    """Raises OSError for trouble on the way; a wheel that differs from its checksum ends the program."""
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    page_address = f"{index.rstrip('/')}/pip/"
    with urllib.request.urlopen(page_address, context=context, timeout=60) as response:  # noqa: S310
        page = WheelLinks(response.read().decode())
    # Final releases only, by number and not by spelling: 9.0 is older than 25.1.
    link = max(page.links, key=lambda link: [int(part) for part in link[0].split(".")], default=None)
    if link is None:
        sys.exit(f"no wheel of pip with a checksum on {page_address}")
    version, address = link
    address, _, checksum = urllib.parse.urljoin(page_address, address).partition("#sha256=")
    with urllib.request.urlopen(address, context=context, timeout=180) as response:  # noqa: S310
        content = response.read()
    if hashlib.sha256(content).hexdigest() != checksum:
        sys.exit(f"{address} does not match the index: its SHA-256 differs")
    wheel = folder / f"pip-{version}-py3-none-any.whl"
    wheel.write_bytes(content)
    return wheel


def configured_index() -> str | None:
    """The index of pip's environment variable or settings files, read without pip."""
    if index := os.environ.get("PIP_INDEX_URL"):
        return index
    settings = configparser.RawConfigParser()
    home = Path.home()
    candidates = [
        Path("/etc/xdg/pip/pip.conf"),
        Path("/etc/pip.conf"),
        home / ".pip" / "pip.conf",
        Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf",
        Path(os.environ.get("PIP_CONFIG_FILE") or os.devnull),
    ]
    settings.read(candidates, encoding="utf-8")
    return settings.get("install", "index-url", fallback=settings.get("global", "index-url", fallback=None))


class WheelLinks(HTMLParser):
    """The (version, address with checksum) of each final pip wheel on an index page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href") or ""
        found = re.search(r"/?pip-([0-9.]+)-py3-none-any\.whl#sha256=[0-9a-f]{64}$", address)
        # An index marks withdrawn files; they are not used.
        if tag == "a" and found and "data-yanked" not in dict(attrs):
            self.links.append((found.group(1), address))


def wheel_from_debian(folder: Path) -> Path:
    """The pip wheel inside Debian's python3-pip-whl, fetched with apt's own settings and signatures."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    # Separate package lists: the system's may be missing or old, and only root may update them.
    apt = ["apt-get", "-qq", "-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache"]
    apt += ["-o", "APT::Sandbox::User=root"]
    try:
        subprocess.run([*apt, "update"], check=True, cwd=folder)  # noqa: S603
        subprocess.run([*apt, "download", "python3-pip-whl"], check=True, cwd=folder)  # noqa: S603
        package = next(folder.glob("python3-pip-whl_*.deb"))
        subprocess.run(["dpkg-deb", "-x", str(package), str(folder / "unpacked")], check=True)  # noqa: S603, S607
        return next((folder / "unpacked").rglob("pip-*.whl"))
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        sys.exit(
            f"this Python has no pip, and none could be fetched ({error}).\n"
            "Install python3-venv or python3-pip, or name a package index in PIP_INDEX_URL, and try again."
        )


if __name__ == "__main__":
    main(sys.argv[1:])
