"""Blocks of PEM in text, as they stand in files and in configuration values.

A value of server.properties is one line, whose line ends are spaces, `\\n` as two characters, or missing. Pure.
"""

from __future__ import annotations

import re

from sordini.system.named_tuple import NamedTuple

_BLOCK = r"-----BEGIN ([A-Z0-9 ]+)-----([^-]*)-----END \1-----"
_WIDTH = 64
CERTIFICATES = frozenset({"CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE"})


class PemBlock(NamedTuple):
    """One block: its label, and the block in the usual form."""

    label: str
    text: str

    @property
    def is_key(self) -> bool:
        return self.label.endswith("PRIVATE KEY")


def pem_blocks(text: str) -> list[PemBlock]:
    """The blocks in a text, in their order; what stands between them is skipped."""
    blocks = []
    for match in re.finditer(_BLOCK, text.replace("\\n", "\n")):
        label, body = match[1], "".join(match[2].split())
        lines = [body[at : at + _WIDTH] for at in range(0, len(body), _WIDTH)]
        blocks.append(PemBlock(label, "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])))
    return blocks
