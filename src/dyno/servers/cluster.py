"""A server of several nodes, started one after the other, and stopped together. One can be lost and restored."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Generic, TypeVar

from dyno.contracts.engine import Nodes, Server
from dyno.contracts.model import Caveat

Node = TypeVar("Node", bound=Server)
KEEPS = Caveat("node", "keeps what it acknowledged when one of its nodes dies for good, at any tier")
"""Caveat of a cluster whose `dyno.contracts.engine.Nodes.survives` is true."""


class Cluster(Nodes, Generic[Node]):
    """See `dyno.contracts.engine.Nodes`. The next node is started when the one before answers."""

    own = True

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)

    def start(self) -> None:
        """Starts the nodes that don't run. If a node doesn't start, kills all nodes and raises Refused."""
        try:
            # Start nodes in this thread, because the kernel kills a process when the thread that started it ends.
            for node in self.starting_order():
                if not list(node.pids()):
                    node.start()
        except BaseException:
            self.kill()
            raise

    def starting_order(self) -> Sequence[Node]:
        """Returns the nodes in the order in which they are started."""
        return self.nodes

    def stop(self) -> None:
        self._all(lambda node: node.stop())

    def kill(self) -> None:
        self._all(lambda node: node.kill())

    def close(self) -> None:
        self._all(lambda node: node.close())

    def _all(self, action: Callable[[Node], object], nodes: Sequence[Node] | None = None) -> None:
        """Calls `action` for all nodes at the same time, because each takes a while to end."""
        # Import here: this module imports logging, which `dyno list` doesn't need.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(action, self.nodes if nodes is None else nodes))

    def pids(self) -> Iterable[int]:
        return chain.from_iterable(node.pids() for node in self.nodes)

    @property
    def count(self) -> int:
        return len(self.nodes)

    def lose(self, number: int) -> None:
        self.nodes[number].kill()

    def restore(self, number: int) -> None:
        self.nodes[number].start()
