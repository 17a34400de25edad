"""The port `sql`: statements of the user on a SQL database."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dyno.contracts.model import MAY_WRITE, Caveat, Refused

if TYPE_CHECKING:
    from dyno.contracts.engine import Server

ISOLATIONS = ("read-uncommitted", "read-committed", "repeatable-read", "serializable")
ESCAPED = Caveat("escaped", "its client library writes parameters into the statement's text, escaped")


def check_isolation(requested: str, offered: Sequence[str] = ()) -> None:
    """Raises Refused unless the isolation is offered. '' stands for the engine's default."""
    if requested and requested not in offered:
        raise Refused(f"isolation {requested} is not offered; there is: {', '.join(offered) or 'none'}")


class Session(NamedTuple):
    """How a client works."""

    isolation: str = ""
    """One of ISOLATIONS. '': the engine's default."""
    read_only: bool = False
    """The engine itself refuses statements that write."""
    there: bool = False
    """The statements work in the database that the engine's `url` names, instead of in the store."""
    change: str = ""
    """Name of the user's database that may be changed; '' for none."""


DEFAULT = Session()
READER = "dyno_reader"
"""Name of the login in the statements that create one which only reads."""


class Rights(NamedTuple):
    """What a login may do to the user's own server."""

    may: str = ""
    """A right to change something; '' if the login has none."""
    remedy: Sequence[str] = ()
    """The statements that create a login without such rights."""


def may_write(rights: Rights) -> Caveat:
    """Returns the caveat of a row that only reads, by a login that may do more."""
    return Caveat(
        MAY_WRITE, f"has a login that may write ({rights.may}). One that may not: {'; '.join(rights.remedy)}"
    )


class Protection(NamedTuple):
    """What an engine adds to a session that only reads. An engine may leave it out: then the database's own setting
    of the session is all there is."""

    begin: Callable[[], object] | None = None
    """Rolls the open transaction back, if there is one, and begins another that only reads. It works after errors."""
    request: bytes = b""
    """The same as a request of native load, with one response."""
    effects: Callable[[str], Sequence[str]] = lambda text: ()
    """Returns the functions in a statement's text that may change something by what the server knows of them."""
    rights: Callable[[], Rights] = Rights
    pasted: bool = False
    """Whether the client library writes values into the text."""


def check_there(session: Session, server: "Server | None", database: str) -> None:
    """Raises Refused unless the session may work in the user's own database, which is called `database`."""
    if server is None or server.own:
        raise Refused("the tables that are there are those of your own server: name it by url=")
    if not database:
        raise Refused("the address names no database: add its name at the end of url=")
    if session.change and session.change != database:
        raise Refused(f"only database {session.change} may be changed, and url= names {database}")


def check_not_there(session: Session) -> None:
    """Raises Refused for a session on the user's own tables, for an engine without a server."""
    if session.there:
        check_there(session, None, "")


class Sql(Protocol):
    """One client's connection. Engines implement this protocol as a class called with `(engine, session)`, which
    raises Refused for an isolation that the engine lacks."""

    def define(self, script: str) -> None:
        """Executes the statements of a schema, which semicolons separate."""

    def load(self, table: str, columns: Mapping[str, Sequence[object]]) -> None:
        """Appends rows to a table, in one transaction, by the engine's way to load many rows.

        `columns` has the values of each column by name, all of the same length: None, bool, int, float, Decimal,
        str, bytes, date, UUID, or datetime without time zone, which is in UTC.
        """

    def statement(self, pieces: Sequence[str], named: bool = False) -> Callable[[Sequence[object]], Any]:
        """Prepares a statement. `pieces`: its texts before, between and after its parameters.

        The callable takes the parameters' values, which are bound and never become part of the text. It returns all
        rows, as a list of tuples, or the number of changed rows if the statement returns no rows (0 if the engine
        does not count them). If `named`, it returns the names of the columns and the rows.
        """

    def rollback(self) -> None:
        """Ends the open transaction without its effects, if there is one."""

    def aborted(self, error: Exception) -> bool:
        """Returns whether the engine ended the transaction because of others: a deadlock or a conflict."""

    def close(self) -> None: ...
