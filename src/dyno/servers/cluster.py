"""A server of several processes: nodes that are started one after the other, stopped and killed together, and of
which one can be lost and come back. Each has a directory of its own.

What a node is (its program, its settings, how it finds the others) may not be put here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Generic, TypeVar

from dyno.contracts.engine import Nodes, Server
from dyno.contracts.model import Caveat

Node = TypeVar("Node", bound=Server)
KEEPS = Caveat("node", "keeps what it acknowledged when one of its nodes dies for good, at any tier")
"""Of what `dyno.contracts.engine.Nodes.survives` is true."""


class Cluster(Nodes, Generic[Node]):
    """See `dyno.contracts.engine.Server` and `dyno.contracts.engine.Nodes`. Each node is there before the next is
    started."""

    own = True

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)

    def start(self) -> None:
        """Those that do not run. Raises Refused, and leaves none running, where one does not come up."""
        try:
            # In this thread: the kernel ends a process with the thread that started it.
            for node in self.in_turn():
                if not list(node.pids()):
                    node.start()
        except BaseException:
            self.kill()
            raise

    def in_turn(self) -> Sequence[Node]:
        """As they are started."""
        return self.nodes

    def stop(self) -> None:
        self._all(lambda node: node.stop())

    def kill(self) -> None:
        self._all(lambda node: node.kill())

    def close(self) -> None:
        self._all(lambda node: node.close())

    def _all(self, how: Callable[[Node], object], nodes: Sequence[Node] | None = None) -> None:
        """At once: each takes its time to come to an end."""
        # It brings logging along, which lists of engines do without.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(how, self.nodes if nodes is None else nodes))

    def pids(self) -> Iterable[int]:
        return chain.from_iterable(node.pids() for node in self.nodes)

    # -- one of them ----------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return len(self.nodes)

    def lose(self, number: int) -> None:
        self.nodes[number].kill()

    def restore(self, number: int) -> None:
        self.nodes[number].start()
