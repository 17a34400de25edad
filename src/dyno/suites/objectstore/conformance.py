"""The conformance suite of the port `bucket`. Nothing may be put here that depends on an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

from dyno.contracts.equality import difference, same
from dyno.contracts.model import Tier, Wrong
from dyno.suites.objectstore.asked import Chain, digest_of, every, in_parts
from dyno.suites.objectstore.dataset import DIGEST
from dyno.suites.objectstore.port import Bucket, NoObject, Requester, StoreRequest, StoreResponse

Opened = Callable[[str], AbstractContextManager[Bucket]]
Check = Callable[[Opened, Tier | None], None]
BODIES = {
    "plain": b"x",
    "empty": b"",
    "a/b/with blanks and + & % ~ signs": bytes(range(256)) * 40,
    "a/b/größe-中": bytes(300_000),
    "a/c/longer": b"0123456789" * 20_000,
}
PART_BYTES = 5 << 20
WAIT_NS = 120_000_000_000


def one(asking: Any, argument: Any) -> Any:
    """What one request comes to, an exception too."""
    asking.begin(0, argument)
    while True:
        for _, answer in asking.ended(WAIT_NS):
            return answer


def _is(name: str, got: Any, right: Any) -> None:
    if not same(got, right):
        raise Wrong(f"{name}: {difference(got, right)}")


def _filled(asking: Requester) -> None:
    for _ in every(asking, 2, [StoreRequest("put", key, body) for key, body in BODIES.items()]):
        pass


def _gets(name: str, asking: Requester, key: str, right: bytes, **how: int) -> None:
    answer = one(asking, StoreRequest("get", key, **how))  # type: ignore[arg-type]
    if type(answer) is not StoreResponse:
        raise Wrong(f"{name}: {key}: {answer!r:.200}")
    _is(f"{name}: bytes of {key}", answer.size, len(right))
    _is(f"{name}: digest of {key}", digest_of(answer), DIGEST(right).digest())


def objects(opened: Opened, tier: Tier | None) -> None:
    """What was put comes back, whole and in pieces, also when it was overwritten, and has its size."""
    with opened("objects") as port, closing(port.asking(2, False)) as asking:
        _filled(asking)
        for key, body in BODIES.items():
            _gets("get", asking, key, body)
            _is(f"head of {key}", one(asking, StoreRequest("head", key)).size, len(body))
        key, body = "a/c/longer", BODIES["a/c/longer"]
        _gets("range", asking, key, body[7:4_007], start=7, end=4_007)
        for again in (b"shorter", b"", body):
            one(asking, StoreRequest("put", key, again))
            _gets("overwritten", asking, key, again)


def gone(opened: Opened, tier: Tier | None) -> None:
    """What was deleted, and what never was, is not there; to delete it again is no error."""
    with opened("gone") as port, closing(port.asking(2, False)) as asking:
        _filled(asking)
        for key in ("plain", "plain", "never"):
            if type(one(asking, StoreRequest("delete", key))) is not StoreResponse:
                raise Wrong(f"to delete {key} is an error")
        for verb in ("get", "head"):
            for key in ("plain", "never"):
                if type(answer := one(asking, StoreRequest(verb, key))) is not NoObject:
                    raise Wrong(f"{verb} of {key}, which is not there: {answer!r:.200}")


def listed(opened: Opened, tier: Tier | None) -> None:
    """Names come by prefix, in the order of their bytes, after a given one, and no more than were asked for."""
    with opened("listed") as port, closing(port.asking(2, False)) as asking:
        _filled(asking)
        every_key = sorted(BODIES, key=str.encode)
        below = [key for key in every_key if key.startswith("a/b/")]
        for ask, right in (
            (StoreRequest("list", "", number=1_000), every_key),
            (StoreRequest("list", "a/b/", number=1_000), below),
            (StoreRequest("list", "a/b/", other=below[0], number=1_000), below[1:]),
            (StoreRequest("list", "", number=2), every_key[:2]),
            (StoreRequest("list", "none/", number=1_000), []),
        ):
            _is(f"list of {ask.key!r} after {ask.other!r}", _names(one(asking, ask)), right)


def _names(answer: Any) -> Sequence[str]:
    if type(answer) is not StoreResponse or answer.names is None:
        raise Wrong(f"a list: {answer!r:.200}")
    return list(answer.names())


def copied(opened: Opened, tier: Tier | None) -> None:
    """A copy has the bytes, and stays when what was copied is overwritten."""
    with opened("copied") as port, closing(port.asking(2, False)) as asking:
        _filled(asking)
        for at, (key, body) in enumerate(BODIES.items()):
            answer = one(asking, StoreRequest("copy", f"copy/{at}", other=key))
            if type(answer) is not StoreResponse:
                raise Wrong(f"copy of {key}: {answer!r:.200}")
            one(asking, StoreRequest("put", key, b"other"))
            _gets("copy", asking, f"copy/{at}", body)


def parts(opened: Opened, tier: Tier | None) -> None:
    """An object in parts is one object; it is not there before it is joined."""
    first, last = bytes(PART_BYTES - 1) + b"1", b"the last part"
    with opened("parts") as port, closing(port.asking(2, False)) as asking:
        answer = one(Chain(asking), lambda: in_parts("a/joined", [first, last]))
        if type(answer) is not StoreResponse:
            raise Wrong(f"an upload in parts: {answer!r:.200}")
        _gets("parts", asking, "a/joined", first + last)
        opened_tag = one(asking, StoreRequest("open", "a/dropped")).tag
        one(asking, StoreRequest("part", "a/dropped", last, upload=opened_tag, number=1))
        one(asking, StoreRequest("drop", "a/dropped", upload=opened_tag))
        _is("list after a dropped upload", _names(one(asking, StoreRequest("list", "a/", number=9))), ["a/joined"])


CHECKS: dict[str, Check] = {
    "objects": objects,
    "gone": gone,
    "listed": listed,
    "copied": copied,
    "parts": parts,
}
