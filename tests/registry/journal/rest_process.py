"""`sordini registry` as one of the judged registries, and a client with the requests of `numbering_process`."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import zlib
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from tests.outside.ports import free_port
from tests.outside.processes import OutsideProcess

ANSWER_S_MAX = 60.0
SUBJECTS = 20
TYPE = {"Content-Type": "application/vnd.schemaregistry.v1+json"}


class RestProcess(OutsideProcess):
    """One of the registries."""

    start_seconds_max = 60.0

    def __init__(self, directory: Path, bootstrap: str, topic: str, group: str | None = None) -> None:
        self.port = free_port()
        self.name = f"registry-{self.port}"
        super().__init__(directory)
        self._options = [
            "--bootstrap",
            bootstrap,
            "--listen",
            str(self.port),
            "--topic",
            topic,
            "--group",
            group or topic,
        ]

    def command(self) -> list[str]:
        return [str(Path(sys.prefix) / "bin" / "sordini"), "registry", *self._options]

    def is_ready(self) -> bool:
        return f"http://127.0.0.1:{self.port}" in self.output()


async def ask(port: int, request: dict[str, Any]) -> dict[str, Any]:
    """As `numbering_process.ask`: requests that another registry has to serve are forwarded. Raises OSError."""
    return await asyncio.to_thread(_ask, port, request)


def _ask(port: int, request: dict[str, Any]) -> dict[str, Any]:
    if "register" not in request:
        rows = _answer(port, "GET", "/schemas?deleted=true")
        if not isinstance(rows, list):
            return {}
        rows.sort(key=lambda row: (row["subject"], row["version"]))
        digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
        return {"ids": {text_of(row["schema"]): row["id"] for row in rows}, "digest": digest, "count": len(rows)}
    text = request["register"]
    subject = f"judged-{zlib.crc32(text.encode()) % SUBJECTS}"
    _answer(port, "PUT", f"/config/{subject}", {"compatibility": "NONE"})
    found = _answer(port, "POST", f"/subjects/{subject}/versions", {"schema": schema_of(text)})
    return {"id": found["id"]} if isinstance(found, dict) and "id" in found else {}


def schema_of(text: str) -> str:
    """An Avro schema of its own for each text."""
    return json.dumps({"type": "enum", "name": "Judged", "symbols": [f"S_{text.replace(' ', '_')}"]})


def text_of(schema: str) -> str:
    """The text that a schema was made of."""
    (symbol,) = json.loads(schema)["symbols"]
    return str(symbol).removeprefix("S_").replace("_", " ")


def _answer(port: int, method: str, path: str, body: object = None) -> Any:
    connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_S_MAX)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), TYPE)
        response = connection.getresponse()
        found = json.loads(response.read())
    except (HTTPException, ValueError) as error:
        raise OSError(str(error)) from None
    finally:
        connection.close()
    return found if response.status < 400 else None
