"""A user's own server, named by its address. Dyno measures it, but neither starts nor stops it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol
from urllib.parse import urlsplit

from dyno.contracts.declarations import typed_text
from dyno.contracts.model import STAND_IN_PREFIX, Absent, Caveat, Unavailable, Value
from dyno.contracts.model import URL as URL
from dyno.contracts.passwords import mask_password
from dyno.contracts.settings import Setting

DECLARED = Caveat("declared", "is your own server: its tier is what its settings say, and is not proven")
ENCRYPTED = Caveat("tls", "is reached by TLS: encryption takes time of client and server")
UNENCRYPTED = Caveat("no-tls", "is reached without encryption")


def other_product(engine: str, product: str) -> Caveat:
    """Returns the caveat of a row that requested `engine`, and is named after the product that answered."""
    return Caveat(f"{STAND_IN_PREFIX}{engine}", f"is {product}: that is the server that answered")


class UserServer:
    """See `dyno.contracts.engine.Server`. `parse` turns the URL into the client's address."""

    own = False
    joined = False
    """Whether another process has created the store, which this one only uses."""

    def __init__(self, url: str, parse: Callable[[str], object] = str) -> None:
        self.url, self._parse = url, parse

    @property
    def address(self) -> Any:
        """The parsed URL. Raises Refused."""
        return self._parse(self.url)

    def start(self) -> None:
        pass

    def stop(self) -> None:
        raise Absent("is refused: it would stop the server, which is your own")

    kill = stop

    def close(self) -> None:
        pass

    def pids(self) -> Iterable[int]:
        return ()


def missing_program_message(what: str, install: str) -> str:
    return f"needs {what}: {install}, or name your own with {URL}="


class HasAddress(Protocol):
    """A server that Dyno started, or the user's."""

    @property
    def own(self) -> bool: ...

    @property
    def url(self) -> str: ...


def unreachable_error(server: HasAddress, error: BaseException, text: str | None = None) -> Unavailable:
    """Returns the exception for a failed connection to a server, which may be Dyno's or the user's. `text`: the
    error's message, if it isn't its `str`."""
    why = typed_text(error, str(error) if text is None else text)
    where = "its server"
    if not server.own:
        where = mask_password(server.url)
    return Unavailable(f"can't connect to {where}: {' '.join(why.split())}")


def caveats(tls: bool | None, declared: Caveat = DECLARED) -> Iterator[Caveat]:
    """Yields the caveats of every user's server. `tls`: whether the connection is encrypted; None if unknown."""
    yield declared
    if tls is not None:
        yield ENCRYPTED if tls else UNENCRYPTED


def setting(*schemes: str) -> Setting:
    """Returns the option that names a user's own server: an address with one of these schemes, or empty."""
    help = f"your own server, {schemes[0]}://user:password@host/…; or env:NAME or file:PATH, where that stands"

    def parse(text: str) -> Value:
        if not text:
            return text
        try:
            url = urlsplit(text)
            # Reading `port` raises ValueError if the port is invalid. MongoDB's addresses may name several hosts.
            for host in url.netloc.rpartition("@")[2].split(","):
                urlsplit(f"//{host}").port  # noqa: B018
        except ValueError:
            # The original message may quote part of the password.
            raise ValueError("is no address; in a password / ? # : @ are written %2F %3F %23 %3A %40") from None
        if url.scheme not in schemes:
            raise ValueError(f"expected an address that begins with {' or '.join(f'{s}://' for s in schemes)}")
        return text

    return Setting(URL, parse, "", help, address=True)
