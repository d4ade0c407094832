"""A parameter of commands that listen: an address with a port."""

from __future__ import annotations

from typing import Any, Final

import click

PORT_MAX: Final = 65_535


class ListenAddress(click.ParamType[tuple[str, int]]):
    """`HOST:PORT`, or a port of this machine."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        host, _, port = str(value).rpartition(":")
        if not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
            self.fail(
                f"{value!r} is not valid: allowed is HOST:PORT or PORT, with a port from 0 to {PORT_MAX}", param, ctx
            )
        return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)
