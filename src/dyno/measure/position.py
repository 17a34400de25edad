"""The numbers of clients: among those of a machine, and among those of all machines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """The clients of a phase that one of several machines runs: those whose number is `machine` modulo `machines`."""

    clients: int
    machine: int = 0
    machines: int = 1

    @property
    def own(self) -> int:
        """Number of clients on this machine."""
        return len(range(self.machine, self.clients, self.machines))

    def number(self, own: int) -> int:
        """Returns a client's number among all clients, given that among those on this machine."""
        return self.machine + own * self.machines


@dataclass(frozen=True)
class ClientPosition:
    """The number of a client, and the number of all clients, on this machine."""

    client: int = 0
    clients: int = 1
    leads: bool = True
    """Whether this client measures the whole process. If the clients are threads, only one does."""
    share: Share | None = None
    """The clients on this machine; None: all."""

    @property
    def of_all(self) -> tuple[int, int]:
        """The same two numbers among the clients of all machines."""
        share = self.share
        if share is None:
            return (self.client, self.clients)
        return (share.number(self.client), share.clients)


ONE = ClientPosition()
