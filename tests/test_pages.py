"""The pages lead somewhere: links and their anchors exist, files that texts name too, and the index has every page."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
INDEX = ROOT / "docs" / "README.md"
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_MENTION = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md\b")


@cache
def tracked(*suffixes: str) -> tuple[Path, ...]:
    """The repository's files with one of these endings; where there is no git, those of the folder."""
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = listing.stdout.splitlines() or [str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*")]
    return tuple(ROOT / name for name in names if name.endswith(suffixes) and (ROOT / name).is_file())


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as forges make them."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return frozenset(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain)


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The file and the anchor of each link of a page that stays in the repository."""
    text = _CODE.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))
    for target in _LINK.findall(text):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            yield ((page.parent / file).resolve() if file else page, anchor)


@pytest.mark.parametrize("page", tracked(".md"), ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_of_a_page_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    lost = [
        f"{target}#{anchor}"
        for target, anchor in links(page)
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target))
    ]
    assert lost == []


def test_each_page_that_code_and_pages_name_exists() -> None:
    lost = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked(".py", ".md", ".yml", ".toml", ".service", "Makefile")
        if path.name not in ("CHANGELOG.md", "test_package_metadata.py")
        for name in _MENTION.findall(path.read_text(encoding="utf-8"))
        if not (ROOT / name).exists()
    ]
    assert lost == []


def test_the_index_has_every_page() -> None:
    listed = {target for target, _ in links(INDEX)}
    missing = [page for page in tracked(".md") if page.is_relative_to(INDEX.parent) and page not in {*listed, INDEX}]
    assert [str(page.relative_to(ROOT)) for page in missing] == []
