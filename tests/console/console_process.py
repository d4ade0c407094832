"""`sordini console` as a process, and a browser without a window that a test fills in itself: cookies, forms, headers."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from html import unescape
from typing import Any
from urllib.parse import urlencode

from tests.outside.serving_process import ServingProcess


class ConsoleProcess(ServingProcess):
    """The console of a cluster."""

    name = "console"
    port_option = "--port"
    ready_line = re.compile(
        r"^sordini console of \S+ is ready \(([^)]+)\): (https?)://([^:/]+):(\d+)/(?:login\?token=(\w+))?$",
        re.MULTILINE,
    )

    @property
    def words(self) -> str:
        return self.ready[1]

    @property
    def port(self) -> int:
        return int(self.ready[4])

    @property
    def token(self) -> str:
        return self.ready[5]

    @property
    def root(self) -> str:
        return f"{self.ready[2]}://127.0.0.1:{self.port}"

    def visitor(self, context: ssl.SSLContext | None = None) -> Visitor:
        """One that is not logged in."""
        return Visitor(self.port, context)

    def logged_in(self) -> Visitor:
        """One with the token that was printed."""
        visitor = self.visitor()
        assert visitor.get(f"/login?token={self.token}").status == 303
        return visitor


class Answer:
    """A response."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.cookies = response.headers.get_all("set-cookie") or []
        self.body = response.read()
        self.text = self.body.decode(errors="replace")

    def __repr__(self) -> str:
        return f"Answer({self.status}, {self.headers}, {self.text[-2000:]})"


class Visitor:
    """Sends requests one after another, with the cookie that it was given."""

    def __init__(self, port: int, context: ssl.SSLContext | None) -> None:
        self._port = port
        self._context = context
        self.cookie = ""

    def get(self, path: str, **headers: str) -> Answer:
        return self._sent("GET", path, None, headers)

    def post(self, path: str, fields: dict[str, Any], **headers: str) -> Answer:
        return self._sent("POST", path, urlencode(fields).encode(), headers)

    def log_in(self, **fields: str) -> Answer:
        return self.post("/login", fields)

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="(\w+)"', self.get("/users").text)
        assert found is not None
        return found[1]

    def change(self, path: str, **fields: Any) -> Answer:
        """A form with the token of the session."""
        return self.post(path, {"csrf": self.csrf, **fields})

    def followed(self, answer: Answer) -> Answer:
        assert answer.status == 303, answer
        return self.get(answer.headers["location"])

    def download(self, path: str) -> bytes:
        """A file."""
        answer = self.get(path)
        assert answer.status == 200, answer
        assert answer.headers["content-disposition"].startswith("attachment")
        return answer.body

    def events(self, path: str, count: int) -> list[tuple[str, dict[str, Any]]]:
        """The first events of a stream: kind and fields."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        found: list[tuple[str, dict[str, Any]]] = []
        try:
            connection.request("GET", path, headers={"Cookie": self.cookie})
            response = connection.getresponse()
            assert response.status == 200
            kind = ""
            while len(found) < count:
                line = response.readline().decode().rstrip("\n")
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    found.append((kind, json.loads(line.removeprefix("data: "))))
        finally:
            connection.close()
        return found

    def _sent(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        if self._context is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        else:
            connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=30, context=self._context)
        try:
            given = {"Content-Type": "application/x-www-form-urlencoded"} if body is not None else {}
            given |= {"Cookie": self.cookie} if self.cookie else {}
            given |= {name.replace("_", "-").title(): value for name, value in headers.items()}
            connection.request(method, path, body, given)
            answer = Answer(connection.getresponse())
        finally:
            connection.close()
        for one in answer.cookies:
            pair = one.partition(";")[0]
            self.cookie = "" if pair.endswith(('=""', "=")) else pair
        return answer


def words(text: str) -> str:
    """What a page says, without its markup."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", text))).strip()
