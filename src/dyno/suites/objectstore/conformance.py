"""Conformance checks of the port `bucket`, which depend on no engine."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from dyno.contracts.equality import expect
from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import Opened, by_name
from dyno.suites._shared.digest import new_digest
from dyno.suites.objectstore import Bucket, NoObject, Requester, StoreRequest, StoreResponse
from dyno.suites.objectstore.requests import ScriptRunner, digest_of, multipart_script, run_all

BODIES = {
    "plain": b"x",
    "empty": b"",
    "a/b/with blanks and + & % ~ signs": bytes(range(256)) * 40,
    "a/b/größe-中": bytes(300_000),
    "a/c/longer": b"0123456789" * 20_000,
}
PART_BYTES = 5 << 20
WAIT_NS = 120_000_000_000


def run_one(requester: Any, argument: Any) -> Any:
    """Makes one request. Returns its answer, which may be an exception."""
    requester.begin(0, argument)
    while True:
        for _, answer in requester.ended(WAIT_NS):
            return answer


@contextmanager
def _fill_bucket(opened: Opened[Bucket], name: str) -> Iterator[Requester]:
    """Yields a requester of a bucket that holds BODIES."""
    with opened(name) as port, closing(port.asking(2, False)) as requester:
        for _ in run_all(requester, 2, [StoreRequest("put", key, body) for key, body in BODIES.items()]):
            pass
        yield requester


def _expect_body(name: str, requester: Requester, key: str, right: bytes, **how: int) -> None:
    answer = run_one(requester, StoreRequest("get", key, **how))  # type: ignore[arg-type]
    if type(answer) is not StoreResponse:
        raise Wrong(f"{name}: {key}: {answer!r:.200}")
    expect(answer.size, len(right), f"{name}: bytes of {key}")
    expect(digest_of(answer), new_digest(right).digest(), f"{name}: digest of {key}")


def objects(opened: Opened[Bucket], tier: Tier | None) -> None:
    """Objects are returned as they were written, whole and by range, with their size, and after being overwritten."""
    with _fill_bucket(opened, "objects") as requester:
        for key, body in BODIES.items():
            _expect_body("get", requester, key, body)
            expect(run_one(requester, StoreRequest("head", key)).size, len(body), f"head of {key}")
        key, body = "a/c/longer", BODIES["a/c/longer"]
        _expect_body("range", requester, key, body[7:4_007], start=7, end=4_007)
        for again in (b"shorter", b"", body):
            run_one(requester, StoreRequest("put", key, again))
            _expect_body("overwritten", requester, key, again)


def gone(opened: Opened[Bucket], tier: Tier | None) -> None:
    """Deleted objects, and objects that never existed, are absent. Deleting an absent object is not an error."""
    with _fill_bucket(opened, "gone") as requester:
        for key in ("plain", "plain", "never"):
            if type(run_one(requester, StoreRequest("delete", key))) is not StoreResponse:
                raise Wrong(f"deleting {key} is an error")
        for verb in ("get", "head"):
            for key in ("plain", "never"):
                if type(answer := run_one(requester, StoreRequest(verb, key))) is not NoObject:
                    raise Wrong(f"{verb} of the absent object {key}: {answer!r:.200}")


def listed(opened: Opened[Bucket], tier: Tier | None) -> None:
    """A list has the names of a prefix in byte order, after a given name, and at most the requested number."""
    with _fill_bucket(opened, "listed") as requester:
        every_key = sorted(BODIES, key=str.encode)
        below = [key for key in every_key if key.startswith("a/b/")]
        for request, right in (
            (StoreRequest("list", "", number=1_000), every_key),
            (StoreRequest("list", "a/b/", number=1_000), below),
            (StoreRequest("list", "a/b/", other=below[0], number=1_000), below[1:]),
            (StoreRequest("list", "", number=2), every_key[:2]),
            (StoreRequest("list", "none/", number=1_000), []),
        ):
            names = _names(run_one(requester, request))
            expect(names, right, f"list of {request.key!r} after {request.other!r}")


def _names(answer: object) -> Sequence[str]:
    if type(answer) is not StoreResponse or answer.names is None:
        raise Wrong(f"a list: {answer!r:.200}")
    return list(answer.names())


def copied(opened: Opened[Bucket], tier: Tier | None) -> None:
    """A copy has the same bytes, and keeps them when its source is overwritten."""
    with _fill_bucket(opened, "copied") as requester:
        for at, (key, body) in enumerate(BODIES.items()):
            answer = run_one(requester, StoreRequest("copy", f"copy/{at}", other=key))
            if type(answer) is not StoreResponse:
                raise Wrong(f"copy of {key}: {answer!r:.200}")
            run_one(requester, StoreRequest("put", key, b"other"))
            _expect_body("copy", requester, f"copy/{at}", body)


def parts(opened: Opened[Bucket], tier: Tier | None) -> None:
    """An object uploaded in parts is one object, and exists only once its parts are joined."""
    first, last = bytes(PART_BYTES - 1) + b"1", b"the last part"
    with opened("parts") as port, closing(port.asking(2, False, library=True)) as requester:
        answer = run_one(ScriptRunner(requester), lambda: multipart_script("a/joined", [first, last]))
        if type(answer) is not StoreResponse:
            raise Wrong(f"an upload in parts: {answer!r:.200}")
        _expect_body("parts", requester, "a/joined", first + last)
        upload = run_one(requester, StoreRequest("open", "a/dropped")).tag
        run_one(requester, StoreRequest("part", "a/dropped", last, upload=upload, number=1))
        run_one(requester, StoreRequest("drop", "a/dropped", upload=upload))
        names = _names(run_one(requester, StoreRequest("list", "a/", number=9)))
        expect(names, ["a/joined"], "list after a dropped upload")


CHECKS = by_name(objects, gone, listed, copied, parts)
