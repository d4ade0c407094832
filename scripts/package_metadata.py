"""What of the package's metadata depends on where the repository is published: its addresses, and the links of README.

`SORDINI_REPOSITORY` in the environment is the address of the repository (`https://HOST/OWNER/NAME`); `make dist` and
the release workflow set it. README's links are relative, for readers of the repository. An index shows README alone, so
each link is made to point at the file of this version there. Without an address nothing can be linked, and the words
are kept. A source distribution has all that in its PKG-INFO, whose fields hatchling takes over.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "SORDINI_REPOSITORY"
_LINK = re.compile(r"(?P<image>!?)\[(?P<words>[^\]]*)\]\((?!https?://|mailto:)(?P<path>[^)\s]+)\)")


class PublishedMetadata(MetadataHookInterface):
    """hatchling's hook for the dynamic fields of pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = os.environ.get(REPOSITORY, "").rstrip("/") or None
        if "readme" not in metadata:  # Else it is the one of PKG-INFO, as are the addresses.
            readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
            text = for_an_index(readme, repository, metadata["version"])
            metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if repository and "urls" not in metadata:
            metadata["urls"] = urls(repository)


def urls(repository: str) -> dict[str, str]:
    return {
        "Repository": repository,
        "Documentation": f"{repository}/blob/HEAD/docs/README.md",
        "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def for_an_index(readme: str, repository: str | None, version: str) -> str:
    """README's text without a relative link."""

    def absolute(link: re.Match[str]) -> str:
        if link["path"].startswith("#") or repository is None:  # An index gives headings no anchors.
            return "" if link["image"] else link["words"]
        kind = "raw" if link["image"] else "blob"
        return f"{link['image']}[{link['words']}]({repository}/{kind}/v{version}/{link['path']})"

    return _LINK.sub(absolute, readme)
