"""The base images of the Dockerfile and docker-compose.yml: whether the registry has them, and newer ones.

    python3 scripts/base_images.py            each pinned digest, and where its tag points now; needs Docker with buildx
    python3 scripts/base_images.py --write    pin what the tags point to now

An image is pinned as NAME:TAG@DIGEST in one line of one file: the digest decides what is pulled, the tag is for
updates. Exit codes: 0 every tag points to its pinned digest; 1 a tag points to another one (with --write: the files
are changed); 2 a pinned image does not exist, or the registry does not answer.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FILES = ("Dockerfile", "docker-compose.yml")
PINNED = re.compile(r"\b([a-z][a-z0-9./_-]*:[\w.-]+)@(sha256:[0-9a-f]{64})\b")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
CURRENT, MOVED, UNKNOWN = 0, 1, 2
INSPECT_SECONDS_MAX = 60.0


class Pin(NamedTuple):
    """One image of one file."""

    file: str
    tag: str
    """NAME:TAG."""
    digest: str

    def __str__(self) -> str:
        """As it is written in the file."""
        return f"{self.tag}@{self.digest}"


def pins(root: Path) -> Iterator[Pin]:
    for file in FILES:
        for tag, digest in PINNED.findall((root / file).read_text(encoding="utf-8")):
            yield Pin(file, tag, digest)


def digest_of(image: str) -> str:
    """The digest of an image's index in its registry. Raises LookupError."""
    command = ["docker", "buildx", "imagetools", "inspect", image, "--format", "{{.Manifest.Digest}}"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSPECT_SECONDS_MAX)  # noqa: S603 - a fixed command.
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LookupError(str(error)) from None
    found = ended.stdout.strip()
    if ended.returncode != 0 or not DIGEST.fullmatch(found):
        raise LookupError(ended.stderr.strip() or f"unexpected answer {found!r}")
    return found


def outcome(pin: Pin, root: Path, *, writes: bool) -> int:
    """Check one image, print the result, and with `writes` write the new digest."""
    try:
        pinned, now = digest_of(str(pin)), digest_of(pin.tag)
    except LookupError as error:
        print(f"{pin.file}: {pin}: {error}", file=sys.stderr)
        return UNKNOWN
    if pinned != pin.digest:
        print(f"{pin.file}: {pin} is {pinned} in the registry", file=sys.stderr)
        return UNKNOWN
    if now == pin.digest:
        print(f"{pin.file}: {pin} is what the tag points to")
        return CURRENT
    print(f"{pin.file}: {pin} is older than the tag, which points to {now}")
    if writes:
        path = root / pin.file
        path.write_text(path.read_text(encoding="utf-8").replace(str(pin), f"{pin.tag}@{now}"), encoding="utf-8")
    return MOVED


def main(arguments: list[str], root: Path = ROOT) -> int:
    if arguments not in ([], ["--write"]):
        print(__doc__, file=sys.stderr)
        return UNKNOWN
    return max(outcome(pin, root, writes=bool(arguments)) for pin in pins(root))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
