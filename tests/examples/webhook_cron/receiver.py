"""A server on a port of this machine that is called by the program, and answers as a test says."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Answer = int | tuple[int, Mapping[str, str]]


class Call(NamedTuple):
    """A request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """The execution that it belongs to."""
        return self.headers["webhook-id"]


class Receiver:
    """Answers 200 unless a path was told otherwise, and its last answer again and again."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._answers: dict[str, list[Answer]] = defaultdict(lambda: [200])
        self._gates: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for gate in self._gates.values():
            gate.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def answers(self, path: str, *answers: Answer) -> None:
        self._answers[path] = list(answers)

    def hold(self, path: str) -> threading.Event:
        """From now on calls to this path wait until the event is set."""
        self._gates[path] = gate = threading.Event()
        return gate

    def at(self, path: str) -> list[Call]:
        return [call for call in list(self.calls) if call.path == path]

    def received(self, call: Call) -> Answer:
        with self._lock:
            self.calls.append(call)
            answers = self._answers[call.path]
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if call.path in self._gates:
            self._gates[call.path].wait(60)
        return answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 200

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that was killed is no news."""


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            told = receiver.received(Call(self.command, self.path, headers, body))
            status, more = (told, {}) if isinstance(told, int) else told
            self.send_response(status)
            for name, value in {"Content-Length": "0", **more}.items():
                self.send_header(name, value)
            self.end_headers()

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *_: object) -> None: ...

    return Handler
