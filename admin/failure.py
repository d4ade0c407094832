"""What a program on a cluster says when it cannot do what its user requested."""

from __future__ import annotations

from sordini.client.errors import ClientError


class Failure(ClientError):
    """What was requested failed; each argument is a line of text that says why."""
