"""Scripted HTTP servers for tests that misbehave like broken servers.

Each path has a function that gets the connection and writes to it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

Answer = Callable[[socket.socket], None]


def response(body: bytes = b"", status: str = "200 OK", *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def whole(body: bytes = b"", status: str = "200 OK", *headers: str) -> Answer:
    return lambda peer: peer.sendall(response(body, status, *headers))


def cut(peer: socket.socket) -> None:
    """Closes the connection in the middle of a body."""
    peer.sendall(response(bytes(1000))[:-900])


@dataclass
class Scripted:
    """A server on a local port, with a thread for each connection."""

    answers: Mapping[str, Answer]
    over: threading.Event = field(default_factory=threading.Event)
    """Set when the test is over; stalled answers wait for it."""
    asked: list[bytes] = field(default_factory=list)
    """The heads of all requests."""

    def __post_init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._serve, daemon=True).start()

    def stall(self, peer: socket.socket) -> None:
        """Sends a part of a body, then nothing more."""
        peer.sendall(response(bytes(1000))[:-900])
        self.over.wait(100)

    def endless(self, peer: socket.socket) -> None:
        """Sends a header of 10 GB."""
        peer.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
        for _ in range(10 << 10):
            peer.sendall(b"x" * (1 << 20))

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (more := peer.recv(65536)):
                head += more
            if head:
                self.asked.append(head)
                path = head.split()[1].decode().partition("?")[0]
                self.answers.get(path, whole(b"none", "404 Not Found"))(peer)
                with contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.over.set()
        # shutdown wakes up the thread that waits in accept(2); close(2) does not.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextlib.contextmanager
def scripted(**answers: Answer) -> Iterator[Scripted]:
    """Serves each keyword's answer at the path `/name`; answers may be added while the server runs."""
    server = Scripted({f"/{name}": answer for name, answer in answers.items()})
    try:
        yield server
    finally:
        server.close()
