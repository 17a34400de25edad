"""The declaration of an engine whose data is on a server, and the base class of its stores.

`server_engine` adds what all such engines share: the options `url`, `set` and `program`, the start of Dyno's own
server or the use of the user's, the search for the program, and the removal of stores. `ServerStore` names the store,
deletes stores that killed runs left behind, checks the tier of a user's server, and reports settings and caveats. An
engine declares and implements only what differs.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from dyno.contracts.engine import Engine, EngineSpec, Listing, Server, ServerSpec
from dyno.contracts.installation import NOTHING, Installation
from dyno.contracts.model import Caveat, Refused, Tier, Value, strongest
from dyno.contracts.native_load import missing_native
from dyno.contracts.programs import Program
from dyno.contracts.settings import Setting
from dyno.servers import listen, namespace, set_option, user_server
from dyno.servers.listen import LISTEN
from dyno.servers.loopback import Address
from dyno.servers.program_option import PROGRAM, JavaProgram, ServerProgram
from dyno.servers.set_option import SET
from dyno.servers.user_server import URL, UserServer

Options = Mapping[str, Value]
StartServer = Callable[[Path, Tier, Options, int], Server]


class ServerStore(Engine):
    """A store on a server: a database, a schema, a table or a prefix. Its name is `name`."""

    shown: ClassVar[tuple[str, ...]] = ()
    """Names of the server's settings that decide speed or durability."""
    own_caveats: ClassVar[tuple[Caveat, ...]] = ()
    """Caveats of a server that Dyno started."""
    undeclared: ClassVar[Caveat] = user_server.DECLARED
    """Caveat of a user's server that does not report the settings that decide its tier."""

    def __init__(self, home: Path, tier: Tier, options: Options, server: Any) -> None:
        self.home = home
        self.tier = tier
        self.options = options
        self.server = server
        self.name = namespace.store_name(home)
        self.client = self.open_client(server, options)
        try:
            self.check_tier()
            if not server.own and not server.joined:
                for name in namespace.find_abandoned(self.stores(self.client)):
                    self.drop(self.client, name)
            self.create()
        except BaseException:
            self.close()
            raise

    # -- what an engine implements --------------------------------------------------------------------------

    @classmethod
    def open_client(cls, server: Any, options: Options) -> Any:
        """Returns a connection to the server after a first successful request. Raises Refused."""
        raise NotImplementedError

    @classmethod
    def stores(cls, client: Any) -> Iterable[str]:
        """Returns the names of all objects on a user's server that may be stores, such as all databases."""
        return ()

    @classmethod
    def drop(cls, client: Any, name: str) -> None:
        """Deletes the store `name`, if it exists."""
        raise NotImplementedError

    def create(self) -> None:
        """Creates the store, if it doesn't exist."""

    def connect(self) -> Any:
        """Returns a further connection to the server."""
        return self.open_client(self.server, self.options)

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        """Returns these settings as the server reports them, except those that it does not know."""
        return {}

    def durability(self) -> Mapping[str, str | None]:
        """Returns the server's settings that decide the tier; empty if the server does not report them."""
        return {}

    @staticmethod
    def weaker(tier: Tier, settings: Mapping[str, str | None]) -> str | None:
        """Returns the setting from `durability` that is too weak for the tier, as NAME=VALUE; None if none is."""
        return None

    def own_files(self) -> Iterable[Path]:
        """Returns the store's files on a server that Dyno started."""
        return ()

    @staticmethod
    def missing_right(error: Exception) -> str | None:
        """See `dyno.contracts.engine.ServerSpec.missing_right`."""
        return None

    @classmethod
    def removal(cls, name: str, address: Any) -> str:
        """Returns a shell command that deletes a store from the user's server at `address`."""
        raise NotImplementedError

    # -- what this class implements -------------------------------------------------------------------------

    @classmethod
    def remove(cls, home: Path, options: Options, server: Any) -> None:
        """See `dyno.contracts.engine.ServerSpec.remove`."""
        with closing(cls.open_client(server, options)) as client:
            cls.drop(client, namespace.store_name(home))

    def check_tier(self) -> None:
        """Raises Refused if the server's settings can't give the tier."""
        if why := self.weaker(self.tier, self.durability()):
            raise Refused(f"the server has {why}, so that it can't give tier {self.tier.value}")

    def gives(self) -> Tier:
        """See `dyno.contracts.engine.ServerSpec.gives`."""
        settings = self.durability()
        return strongest(tier for tier in Tier if self.weaker(tier, settings) is None)

    @property
    def tls(self) -> bool | None:
        """True if connections are encrypted; None if that is unknown."""
        if isinstance(self.server.address, Address):
            return self.server.address.secure
        return False

    def close(self) -> None:
        self.client.close()

    def settings(self) -> Mapping[str, Value | None]:
        names = tuple(dict.fromkeys((*self.shown, *set_option.to_read(self.options))))
        own = "socket"
        if isinstance(self.server.address, Address):
            own = "loopback"
        return {**self.read_settings(names), "transport": own if self.server.own else URL, "tls": self.tls}

    def files(self) -> Iterable[Path]:
        if self.server.own:
            return self.own_files()
        return ()

    def caveats(self) -> Iterable[Caveat]:
        if self.options.get(SET):
            yield set_option.CAVEAT
        if self.server.own:
            yield from self.own_caveats
        else:
            declared, settings = self.undeclared, self.durability()
            if settings:
                shown = ", ".join(f"{name}={'unknown' if at is None else at}" for name, at in settings.items())
                text = f"is your own server: its settings give tier {self.gives().value}, not proven ({shown})"
                declared = Caveat(user_server.DECLARED.code, text)
            yield from user_server.caveats(self.tls, declared)


def server_engine(
    store: type[ServerStore],
    *,
    schemes: tuple[str, ...],
    address: Callable[[str], object] = str,
    start: StartServer | None = None,
    program: ServerProgram | JavaProgram | None = None,
    settings: Setting | None = None,
    options: tuple[Setting, ...] = (),
    sized: tuple[str, str, Value] | None = None,
    refuse: Callable[[Tier, Options], str | None] = lambda tier, options: None,
    installation: Installation = NOTHING,
    start_seconds: Callable[[Options], float] = lambda options: 0.0,
    listens: bool = False,
    untested: str = "",
    **declaration: Any,
) -> EngineSpec:
    """Returns the declaration of an engine whose store is a `ServerStore`.

    `schemes` are the URL schemes of a user's server. `address` parses the URL; the result is `server.address`.
    `start` returns the server that Dyno starts, and `program` is its program. Without them, the engine has only
    users' servers. `settings` is the option `set`. `sized` names a setting of the server, the option that sizes the
    same thing, and that option's default; users may give only one of the two. `refuse` and `installation` are in
    addition to those of all servers and of the program. `start_seconds` and `untested` are fields of `ServerSpec` and
    `Listing`. `listens`: whether the server that Dyno starts has the option `listen`, which `start` obeys: see
    `dyno.servers.listen`. `declaration` has further fields of `dyno.contracts.engine.EngineSpec`.
    """

    additions = [settings] if settings else []
    if isinstance(program, ServerProgram):
        additions.append(program.setting)
    return EngineSpec(
        options=(
            user_server.setting(*schemes),
            *((listen.setting(),) if listens else ()),
            *options,
            *additions,
        ),
        refuse=partial(_refuse_options, sized, refuse),
        installation=_describe_program(program) + installation,
        server=ServerSpec(
            create=partial(_create_server, start, address),
            start_seconds=start_seconds,
            gives=None if store.weaker is ServerStore.weaker else store.gives,
            remove=store.remove,
            removal=lambda name, options: store.removal(name, address(str(options[URL]))),
            missing_right=store.missing_right,
        ),
        listing=Listing(by_default=False, untested=untested),
        **{"opener": store, **declaration},
    )


def _create_server(
    start: StartServer | None,
    address: Callable[[str], object],
    home: Path,
    tier: Tier,
    options: Options,
    clients: int,
) -> Server:
    """Returns the user's server if the options name one, and else Dyno's own."""
    if options[URL] or start is None:
        return UserServer(str(options[URL]), address)
    return start(home, tier, options, clients)


def _refuse_options(
    sized: tuple[str, str, Value] | None, refuse: Callable[[Tier, Options], str | None], tier: Tier, options: Options
) -> str | None:
    if sized and options[sized[1]] != sized[2] and set_option.sets(options, sized[0]):
        return f"set.{sized[0]} and {sized[1]} are one setting: leave one of them out"
    if options.get(LISTEN) and options[URL]:
        return f"{LISTEN} is of a server of Dyno's own, and {URL} names one of yours: leave one of them out"
    return refuse(tier, options) or set_option.refuse_options(options)


def _describe_program(program: ServerProgram | JavaProgram | None) -> Installation:
    """Returns what Dyno's own server needs: its program, and Java."""

    def find_unmet_need(options: Options) -> str | None:
        missing = None
        if program is not None and not options[URL]:
            missing = program.explain_missing(str(options.get(PROGRAM, "")))
        return missing or missing_native(options)

    if program is None or program.pinned is None:
        programs: tuple[Program, ...] = ()
    else:
        programs = (program.pinned,)
    if isinstance(program, JavaProgram):
        return Installation(programs=programs, packages=program.packages, needs=find_unmet_need)
    return Installation(programs=programs, needs=find_unmet_need)
