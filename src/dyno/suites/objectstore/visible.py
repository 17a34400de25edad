"""Whether what was written is seen: one name is written, read, listed, overwritten and deleted, and each answer held
against what was acknowledged before. What is stale is counted."""

from __future__ import annotations

from typing import Any, NamedTuple

from dyno.contracts.equality import same
from dyno.suites.objectstore.asked import Script, digest_of
from dyno.suites.objectstore.port import Body, NoObject, StoreRequest

LOOKS = ("stale_reads", "stale_lists", "stale_overwrites", "stale_deletes", "stale_delete_lists")


class Seen(NamedTuple):
    """Which of the looks showed something older."""

    stale: tuple[str, ...]


def visible(key: str, bodies: tuple[Body, Body], digests: tuple[bytes, bytes]) -> Script:
    """Returns Seen; or the exception of the first request that failed."""
    stale = []
    looks: tuple[tuple[str, StoreRequest, Any], ...] = (
        ("", StoreRequest("put", key, bodies[0]), None),
        ("stale_reads", StoreRequest("get", key), digests[0]),
        ("stale_lists", StoreRequest("list", key, number=2), [key]),
        ("", StoreRequest("put", key, bodies[1]), None),
        ("stale_overwrites", StoreRequest("get", key), digests[1]),
        ("", StoreRequest("delete", key), None),
        ("stale_deletes", StoreRequest("get", key), None),
        ("stale_delete_lists", StoreRequest("list", key, number=2), []),
    )
    for look, ask, right in looks:
        came = yield ask
        if isinstance(came, Exception) and not (isinstance(came, NoObject) and look):
            return came
        if look and not same(_seen(ask, came), right):
            stale.append(look)
    return Seen(tuple(stale))


def _seen(ask: StoreRequest, came: Any) -> Any:
    if isinstance(came, NoObject):
        return None
    return list(came.names()) if ask.verb == "list" else digest_of(came)
