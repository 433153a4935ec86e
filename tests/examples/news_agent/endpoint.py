"""A model behind HTTP, on a port of this machine: it answers as a test says, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Reply(NamedTuple):
    status: int
    body: bytes


def text(words: str) -> Reply:
    return Reply(200, json.dumps({"text": words}).encode())


BROKEN = Reply(500, b"out of memory")


class Endpoint:
    """Answers with `reply`, which a test may change at any time."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.reply: Callable[[dict[str, Any]], Reply] = lambda prompt: text(f"News for {prompt['user']}")
        self.gate = threading.Event()
        """Cleared, it holds back all answers."""
        self.gate.set()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Endpoint:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/model"

    def asked_for(self, user: str) -> int:
        return sum(prompt["user"] == user for prompt in list(self.asked))

    def received(self, prompt: dict[str, Any], headers: dict[str, str]) -> Reply:
        self.asked.append(prompt)
        self.headers.append(headers)
        self.gate.wait(60)
        return self.reply(prompt)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 200

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that was killed is no news."""


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            status, answer = endpoint.received(json.loads(body), {k.lower(): v for k, v in self.headers.items()})
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    return Handler
