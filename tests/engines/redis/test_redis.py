"""Guards the specifics of Redis and Valkey. Every client library gives the same answers. A transaction of any size is
all or nothing. Dyno's own server is reachable by its socket only. A user's own server is checked, used and left
unchanged. `test_records` and `test_durability` test the behaviour that all engines share.
"""

from __future__ import annotations

import re
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import serving
from needed import require
from serving import everything, free_port, key, opened, record, served
from shell import Shell, small, wait_for
from stores import Store

from dyno import registry
from dyno.contracts.engine import Server
from dyno.contracts.model import Absent, Refused, Tier, UsageError
from dyno.contracts.suite import Job
from dyno.engines.redis.engines import Keyspace, Redis
from dyno.servers import namespace
from dyno.servers.process import Process
from dyno.servers.program_option import ServerProgram
from dyno.servers.user_server import UserServer
from dyno.suites.records.conformance import CHECKS
from dyno.suites.records.port import Record

pytestmark = pytest.mark.usefixtures("processes")

ENGINES = ("redis", "valkey")
CLIENTS = ("redis-py", "single", "hiredis")
PASSWORD = "s3cr:t/@"
LOGGED = ("--appendonly", "yes", "--appendfsync")


def job(home: Path, engine: str = "redis", tier: Tier = Tier.PROCESS, **given: str) -> Job:
    """A store in `home`, with its server, which is not started."""
    require(registry.engine(engine))
    return serving.job(home, engine, tier, **given)


class Users:
    """A user's own server, with a port, a password, and keys of the user."""

    def __init__(self, home: Path, *settings: str) -> None:
        self.port = free_port()
        self.path = home / "users.sock"
        words = ["--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", str(self.path), "--save", ""]
        command = ["redis-server", *words, "--requirepass", PASSWORD, *settings]
        self.process = Process(command, home, self._answers)

    def _answers(self) -> bool:
        try:
            return bool(self.client().ping())
        except OSError:
            return False
        except Exception as error:
            return "Connect" not in type(error).__name__

    def client(self, db: int = 0) -> Any:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        retry = Retry(NoBackoff(), 0)
        return redis.Redis(unix_socket_path=str(self.path), password=PASSWORD, db=db, retry=retry)

    def url(self, how: str = "redis", password: str = "s3cr%3At%2F%40", db: int = 0) -> str:
        if how == "unix":
            return f"unix://:{password}@{self.path}?db={db}"
        return f"{how}://:{password}@127.0.0.1:{self.port}/{db}"


@pytest.fixture
def users(place: Path) -> Iterator[Callable[..., Users]]:
    require(registry.engine("redis"))
    started: list[Users] = []

    def start(*settings: str) -> Users:
        home = place / f"users{len(started)}"
        home.mkdir()
        started.append(Users(home, *settings))
        started[-1].process.start()
        return started[-1]

    yield start
    for one in started:
        one.process.close()


# -- counters ---------------------------------------------------------------------------------------------


@pytest.mark.claim("Redis's own counters of a phase count the phase's commands exactly")
@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("engine", ENGINES)
def test_commands_processed_are_the_phases_operations(engine: str, clients: int, shell: Shell) -> None:
    require(registry.engine(engine))
    words = small(samples=1, param_records=200, clients=clients)
    ended = shell.dyno("run", "records", "-e", engine, *words, "-o", shell.file)
    assert ended.status == 0, ended
    (trial,) = shell.attempts(engine)
    (sample,) = trial["samples"]
    assert sample["counters"]["total_commands_processed"] == sample["operations"]
    assert sample["counters"]["keyspace_hits"] == sample["operations"]
    assert sample["counters"]["keyspace_misses"] == 0
    assert sample["counters"]["total_net_output_bytes"] > sample["operations"]


# -- the port ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("client", CLIENTS[1:])
def test_a_store_passes_the_check_by_every_client(client: str, check: str, place: Path) -> None:
    spec = registry.engine("redis")
    require(spec)
    CHECKS[check](Store(spec, Tier.PROCESS, {"client": client}).opened(place), Tier.PROCESS)


@pytest.mark.parametrize("client", CLIENTS)
def test_pipelined_get_many_passes_its_check(client: str, place: Path) -> None:
    spec = registry.engine("redis")
    require(spec)
    CHECKS["many"](Store(spec, Tier.PROCESS, {"client": client, "many": "pipeline"}).opened(place), Tier.PROCESS)


@pytest.mark.parametrize("client", CLIENTS)
def test_large_transaction_leaves_nothing_if_its_input_raises(client: str, place: Path) -> None:
    """Several MiB were already sent when the input raises, more than the client buffers."""

    def failing() -> Iterator[Record]:
        for number in range(4_000):
            yield record(number, "x" * 1_000)
        raise ValueError("planned")

    asked = job(place / "store", client=client)
    with served(asked), opened(asked) as port:
        port.insert([record(1, "old")])
        for write in (port.insert, port.replace):
            with pytest.raises(ValueError, match="planned"):
                write(failing())
            # The connection is still in step: the next answer belongs to the next request.
            assert everything(port) == [record(1, "old")]


@pytest.mark.parametrize("client", CLIENTS)
def test_repeated_key_sees_its_previous_value(client: str, place: Path) -> None:
    """A key can occur again in the same command, in a later command of the same transaction, and in a last command
    with a single record.
    """
    # 2,001 records in commands of 1,000: 800 keys occur twice, 400 of them a third time, and the last record repeats
    # one of these.
    numbers = [*range(800), *range(800), *range(400), 7]
    news = [record(number, f"v{place}") for place, number in enumerate(numbers)]
    truth = {key(record(number)): record(number, "old") for number in range(0, 900, 2)}
    asked = job(place / "store", client=client)
    with served(asked), opened(asked) as port:
        port.insert(list(truth.values()))
        wanted = []
        for new in news:
            wanted.append(truth.get(key(new)))
            truth[key(new)] = new
        assert port.replace(iter(news)) == wanted
        assert everything(port) == [truth[k] for k in sorted(truth)]
        keys = [key(record(number)) for number in [*numbers, 850, 851]]
        assert port.delete(iter(keys)) == [truth.pop(k, None) is not None for k in keys]
        assert everything(port) == [truth[k] for k in sorted(truth)] != []


def test_a_refused_write_raises_by_every_client(place: Path) -> None:
    """If the server is out of memory, no client mistakes the refusal for an answer."""
    import redis

    with served(job(place / "store", tier=Tier.VOLATILE)) as server:
        for client in CLIENTS:
            one = job(place / client, tier=Tier.VOLATILE, client=client)
            with opened(replace(one, server=server)) as port:
                with redis.Redis(**server.address) as administrator:
                    administrator.config_set("maxmemory", "1")
                    for write in (port.insert, port.replace):
                        with pytest.raises(Exception, match="used memory > 'maxmemory'"):
                            write([record(1)])
                    administrator.config_set("maxmemory", "0")
                assert everything(port) == []


# -- a server of Dyno's own -------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_dynos_server_listens_only_on_a_unix_socket(engine: str, place: Path) -> None:
    asked = job(place / "store", engine)
    with served(asked) as server:
        (pid,) = server.pids()
        assert psutil.Process(pid).net_connections("inet") == []
        assert psutil.Process(pid).net_connections("unix") != []
        assert stat.S_IMODE(server.home.stat().st_mode) == 0o700
        assert stat.S_IMODE(server.path.stat().st_mode) == 0o700
        with closing(asked.open(asked.home)) as store:
            assert store.settings()["save"] == ""
            assert store.version().startswith(f"{engine.title()} ")
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("engine", ENGINES)
def test_records_survive_a_restart_only_with_a_log(engine: str, place: Path) -> None:
    """All records remain at a tier with a log, and none without a log."""
    for tier in (Tier.VOLATILE, Tier.PROCESS):
        asked = job(place / tier.value, engine, tier)
        with served(asked) as server:
            kept: list[Record] = []
            for end in (server.kill, server.stop):
                with opened(asked) as port:
                    port.insert([record(len(kept))])
                    kept.append(record(len(kept)))
                end()
                assert list(server.pids()) == []
                server.start()
                with opened(asked) as port:
                    assert everything(port) == (kept if tier is Tier.PROCESS else [])


def test_removed_store_disappears_from_server_and_log(place: Path) -> None:
    """The size of the next store must exclude the removed one. Another store on the same server stays."""

    def size(asked: Job) -> int:
        with closing(asked.open(asked.home)) as engine:
            return sum(path.stat().st_size for path in engine.files())

    asked = job(place / "one")
    with served(asked) as server:
        other = replace(job(place / "other"), server=server)
        with opened(asked) as port, opened(other) as neighbour:
            neighbour.insert([record(1)])
            port.insert(record(number, "y" * 100) for number in range(3_000))
        before = size(asked)
        assert before > 300_000
        asked.remove(asked.home)
        assert size(other) < before / 100
        with opened(other) as neighbour:
            assert everything(neighbour) == [record(1)]


def test_missing_program_error_names_its_wheel() -> None:
    require(registry.engine("valkey"))
    absent = ServerProgram("server", "server", names=("no-such-server",), install="pip install no-such-wheel")
    assert absent.find() is None
    assert absent.explain_missing() == "needs no-such-server: pip install no-such-wheel, or name your own with url="
    with pytest.raises(Refused, match="needs no-such-server"):
        Redis(absent, Path("/nowhere"), {})


# -- a user's own server ----------------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("how", ["redis", "unix"])
def test_users_server_is_used_and_left_unchanged(
    how: str, client: str, users: Callable[..., Users], place: Path
) -> None:
    mine = users(*LOGGED, "no")
    mine.client(3).mset({"mine": "1", "dyno_mine": "2"})
    asked = job(place / "store", url=mine.url(how, db=3), client=client)
    with served(asked) as server:
        with opened(asked) as port:
            port.insert(record(number) for number in range(1_500))
            assert everything(port) == [record(number) for number in range(1_500)]
            assert mine.client(3).dbsize() == 1_500 + 3 + 2
        with closing(asked.open(asked.home)) as engine:
            assert {caveat.code for caveat in engine.caveats()} == {"declared", "no-tls"}
            assert list(engine.files()) == list(server.pids()) == []
        for refused in (server.stop, server.kill):
            with pytest.raises(Absent, match="your own") as absent:
                refused()
            assert "s3cr" not in str(absent.value)
        asked.remove(asked.home)
    assert sorted(mine.client(3).keys()) == [b"dyno_mine", b"mine"]
    assert mine.client(0).dbsize() == 0
    assert mine.client().ping()


@pytest.mark.parametrize("how", ["redis", "unix"])
def test_connection_error_is_one_line_without_password(how: str, users: Callable[..., Users], place: Path) -> None:
    mine = users()
    wrong = job(place / "wrong", url=mine.url(how, "n0t%2Fit"))
    with pytest.raises(Refused, match=r"^can't connect to .*\*\*\*.*invalid username-password pair") as refused:
        wrong.open(wrong.home)
    assert "n0t" not in str(refused.value)
    mine.process.close()
    gone = job(place / "gone", url=mine.url(how))
    with pytest.raises(Refused, match=r"^can't connect to .*\*\*\*") as refused:
        gone.open(gone.home)
    assert "s3cr" not in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "tier", "why"),
    [
        ((), Tier.VOLATILE, None),
        ((), Tier.PROCESS, "appendonly=no, so that it can't give tier process"),
        ((*LOGGED, "everysec"), Tier.PROCESS, "appendfsync=everysec, so that it can't give tier process"),
        ((*LOGGED, "no"), Tier.PROCESS, None),
        ((*LOGGED, "no"), Tier.POWER, "appendfsync=no, so that it can't give tier power"),
        ((*LOGGED, "always"), Tier.PROCESS, None),
        ((*LOGGED, "always"), Tier.POWER, None),
        ((*LOGGED, "always", "--no-appendfsync-on-rewrite", "yes"), Tier.POWER, "no-appendfsync-on-rewrite=yes"),
        (("--rename-command", "CONFIG", ""), Tier.PROCESS, "does not tell its appendonly"),
        (("--rename-command", "CONFIG", ""), Tier.VOLATILE, None),
        (("--cluster-enabled", "yes"), Tier.VOLATILE, "a node of a cluster"),
    ],
    ids=range(11),
)
def test_users_server_is_checked_for_the_tier(
    settings: tuple[str, ...], tier: Tier, why: str | None, users: Callable[..., Users], place: Path
) -> None:
    asked = job(place / "store", tier=tier, url=users(*settings).url())
    if why is not None:
        with pytest.raises(Refused, match=why):
            asked.open(asked.home)
        return
    with closing(asked.open(asked.home)) as engine:
        known = "CONFIG" not in settings
        assert (engine.settings()["appendonly"] is not None) == known


@pytest.mark.parametrize(
    ("settings", "tier"),
    [
        ((), Tier.VOLATILE),
        ((*LOGGED, "everysec"), Tier.VOLATILE),
        ((*LOGGED, "no"), Tier.PROCESS),
        ((*LOGGED, "always"), Tier.POWER),
        (("--rename-command", "CONFIG", ""), Tier.VOLATILE),
    ],
    ids=range(5),
)
def test_users_server_tier_follows_from_its_settings(
    settings: tuple[str, ...], tier: Tier, users: Callable[..., Users], place: Path
) -> None:
    asked = job(place / "store", tier=Tier.VOLATILE, url=users(*settings).url())
    declared = asked.spec.server
    assert declared is not None and declared.gives is not None
    with closing(asked.open(asked.home)) as engine:
        assert declared.gives(engine) is tier
        assert [f"give tier {tier.value}" in c.text for c in engine.caveats() if c.code == "declared"] == [True]


def test_sweep_leaves_stores_of_running_processes(users: Callable[..., Users], place: Path) -> None:
    """`tests/servers/test_leftovers.py` tests that the stores of dead processes are removed."""
    mine, asked = users(), [job(place / name, tier=Tier.VOLATILE) for name in ("one", "other")]
    one, other = (replace(each, server=UserServer(mine.url())) for each in asked)
    with opened(one) as port:
        port.insert([record(1)])
        with opened(other):
            assert everything(port) == [record(1)]


def test_command_that_arrives_after_the_kill_is_removed(users: Callable[..., Users], place: Path) -> None:
    """The server executes what a killed client has sent, perhaps while its keys are being deleted."""
    mine, asked = users(), job(place / "store", tier=Tier.VOLATILE)
    asked = replace(asked, server=UserServer(mine.url()))
    name = namespace.store_name(asked.home)
    mine.client().mset({f"{name}:{number}": "1" for number in range(3)})

    class Late:
        """A client during whose first deletion another key arrives."""

        def __init__(self) -> None:
            self._client = mine.client()
            self.scan = self._client.scan
            self.late = [f"{name}:late"]

        def unlink(self, *keys: bytes) -> None:
            self._client.unlink(*keys)
            while self.late:
                self._client.set(self.late.pop(), "1")

    late: Any = Late()
    Keyspace.drop(late, name)
    assert mine.client().keys("*") == []


def test_error_leaves_no_key_on_users_server(users: Callable[..., Users], shell: Shell) -> None:
    """The server has run out of memory."""
    mine = users("--maxmemory", "4mb")
    mine.client().set("mine", "1")
    asked = small(samples=1, retries=0, phases="insert", param_records=25_000)
    row = f"redis:url={mine.url()}"
    ended = shell.dyno("run", "records", "-e", row, "--tier", "volatile", *asked, "-o", shell.file)
    assert "maxmemory" in ended.out, ended
    assert mine.client().keys("*") == [b"mine"]
    assert "stays on" not in ended.out + ended.err


def test_refusal_names_the_missing_right(users: Callable[..., Users], shell: Shell) -> None:
    """The run has a row for each client and each user, who lacks one right."""
    missing_rights = {
        "scan": "-scan",
        "unlink": "-unlink",
        "dyno_*": "resetkeys ~app:*",
        "set": "-mset -set",
        "config": "-config|get",
    }
    mine = users("--appendonly", "yes", "--appendfsync", "always")
    for number, without in enumerate(missing_rights.values()):
        rights = ["reset", "on", ">pw", "~*", "+@all", *without.split()]
        mine.client().execute_command("ACL", "SETUSER", f"u{number}", *rights)
    rows = [
        f"redis:client={client}+url=redis://u{number}:pw@127.0.0.1:{mine.port}/0"
        for client in CLIENTS
        for number in range(len(missing_rights))
    ]
    flags = small(samples=1, phases="insert", param_txn=1, tier="process")
    ended = shell.dyno("run", "records", "-e", ",".join(rows), *flags, "-o", shell.file)
    attempts = sorted(shell.attempts("redis"), key=lambda attempt: attempt["cell"])
    for attempt, named in zip(attempts, [*missing_rights] * len(CLIENTS), strict=True):
        assert attempt["outcome"] == "refused", ended
        assert "right" in attempt["why"] and named in attempt["why"].lower()
    assert mine.client().keys("dyno_*:*") == []


def test_removal_command_deletes_only_the_store(users: Callable[..., Users], place: Path, shell: Shell) -> None:
    mine, spec = users(), registry.engine("redis")
    name = namespace.store_name(place)
    keys = {f"{name}:{number} with blanks 'and' quotes": "x" for number in range(100)}
    mine.client().mset({**keys, "mine": "1"})
    assert spec.server is not None and spec.server.removal is not None
    command = spec.server.removal(name, spec.resolve({"url": mine.url()}))
    assert PASSWORD not in command and shell.sh("sh", "-c", command).status != 0
    shell.given["REDISCLI_AUTH"] = PASSWORD
    assert shell.sh("sh", "-c", command).status == 0
    assert mine.client().keys("*") == [b"mine"]


def test_printed_command_removes_the_leftover_store(users: Callable[..., Users], shell: Shell) -> None:
    mine = users()
    mine.client().set("mine", "1")
    mine.client().execute_command("ACL", "SETUSER", "u", "on", ">pw", "~*", "+@all")
    row = f"redis:url=redis://u:pw@127.0.0.1:{mine.port}/0"
    flags = ("--tier", "volatile", "--phases", "rand-key", "-p", "records=100", "--samples", 1, "--duration", 60)
    with shell.started("run", "records", "-e", row, *flags, "-o", shell.file) as run:
        assert wait_for(lambda: mine.client().keys("dyno_*"))
        mine.client().execute_command("ACL", "SETUSER", "u", "-unlink", "-del")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate()
    # One for the trial, and one for the checks before it if the signal came during them.
    commands = re.findall(r"stays on redis://u:\*+@.*; to remove it: (.*)$", err, re.MULTILINE)
    assert commands, (out, err)
    mine.client().execute_command("ACL", "SETUSER", "u", "+@all")
    shell.given["REDISCLI_AUTH"] = "pw"
    for command in commands:
        ended = shell.sh("sh", "-c", command)
        assert ended.status == 0, (command, ended)
    assert mine.client().keys("*") == [b"mine"], err


def test_invalid_or_unsupported_address_is_refused() -> None:
    spec = registry.engine("redis")
    with pytest.raises(UsageError, match="redis:// or rediss:// or unix://"):
        spec.resolve({"url": "http://host"})
    options = spec.resolve({"url": "rediss://:s3cret@host", "client": "hiredis"})
    why = spec.refuse(Tier.PROCESS, options)
    assert why is not None and "does not encrypt" in why and "s3cret" not in why
    assert spec.refuse(Tier.PROCESS, {**options, "client": "redis-py"}) is None


def test_address_with_valkey_scheme_is_accepted(users: Callable[..., Users], place: Path) -> None:
    """An address of the scheme `valkey` may lead to a Redis server, and the version names the actual server."""
    asked = job(place / "store", "valkey", Tier.VOLATILE, url=users().url("valkey"))
    server: Server | None = asked.server
    assert server is not None and not server.own
    with closing(asked.open(asked.home)) as engine:
        assert engine.version().startswith("Redis ")
