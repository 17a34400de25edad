"""Life of a real server in a trial: it ends with the trial, however the trial ends, and stops for a cold phase. A
user's own server is left unchanged, except for the requested work, and its password leaks nowhere.

Uses PostgreSQL, which is available on most machines. Each engine's conformance tests cover its own server.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psutil
import pytest
from needed import require, unavailable
from serving import free_port
from shell import Ended, Shell, small, wait_for

from dyno import registry, results
from dyno.contracts.model import Tier
from dyno.engines.postgresql.server import PostgreSQL, places
from dyno.servers import leftover_processes, user_server
from dyno.servers.process import Process, directory, program, unprivileged

pytestmark = pytest.mark.usefixtures("processes")

SPEC = registry.engine("postgresql")
SECRET = "Tr1cky%2Fw0rd"
PLAIN = "Tr1cky/w0rd"
LONG = small(samples=9, phases="mixed", param_records=2_000, param_operations=1_000_000)


@pytest.fixture(autouse=True)
def needed() -> None:
    require(SPEC)


def named(pid: int) -> str:
    """A process's name, or '' if it has ended."""
    with suppress(psutil.NoSuchProcess):
        return str(psutil.Process(pid).name())
    return ""


def words_of(pid: int) -> list[str]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).cmdline()
    return []


def postgres(shell: Shell) -> list[int]:
    return [pid for pid in shell.alive() if named(pid) == "postgres"]


def segments() -> set[str]:
    """The machine's System V shared memory segments whose creator has ended. Segments of other tests' servers have
    living creators.
    """
    lines = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return {line[1] for line in lines if not psutil.pid_exists(int(line[4]))}


def test_two_postgresql_installations_run_side_by_side(shell: Shell, place: Path) -> None:
    """A tree of links stands in for another version: the path of a started program shows its origin."""
    server_program = program("postgres", places=places())
    assert server_program is not None
    there = place / "other" / "bin"
    there.mkdir(parents=True)
    for file in Path(server_program).resolve().parent.iterdir():
        (there / file.name).symlink_to(file)
    engines = f"postgresql:program={there}/postgres,postgresql"
    flags = small(samples=1, phases="rand-key")
    with shell.started("run", "records", "-e", engines, *flags, "-o", shell.file) as process:
        seen = set[str]()

        def both() -> bool:
            seen.update(words[0] for pid in postgres(shell) if (words := words_of(pid)))
            return {f"{there}/postgres", server_program} <= seen

        assert wait_for(both)
        assert process.wait() == 0
    labels = {cell.label for cell in results.load(shell.file).cells if not cell.floor}
    (version,) = {each["version"].split()[1] for each in shell.attempts() if "PostgreSQL" in each["version"]}
    assert labels == {f"postgresql {version}", f"postgresql {version}:program={there}/postgres"}


GIVEN = "postgresql:set=work_mem=5MB max_wal_size=2GB"


@pytest.fixture(scope="module")
def measured(shared_shell: Shell) -> Ended:
    """A run with a row of the default settings and a row of GIVEN, in the file of `shared_shell`."""
    require(SPEC)
    before = segments()
    chosen = small(samples=1, phases="insert-blind-indices,rand-key,rand-key-cold", param_records=3_000, param_txn=10)
    ended = shared_shell.dyno(
        "run", "records", "-e", f"postgresql,{GIVEN}", *chosen, "-o", shared_shell.file, "--all"
    )
    assert ended.status == 0, ended
    assert shared_shell.strays() == []
    assert shared_shell.left() == []
    assert wait_for(lambda: segments() <= before)
    return ended


@pytest.mark.claim("A server ends with its trial, however the trial ends")
def test_server_is_measured_and_ends_with_its_trial(shared_shell: Shell, measured: Ended) -> None:
    assert measured.status == 0
    for attempt in shared_shell.attempts("postgresql"):
        assert attempt["settings"]["fsync"] == "off"
        assert attempt["resources"]["server"]["peak_resident_bytes"] > 10 << 20
        for sample in attempt["samples"]:
            assert sample["server"] is not None
            assert sample["client"]["user_ns"] + sample["client"]["system_ns"] > 0


@pytest.mark.claim("A server is stopped for a cold phase while its files are evicted")
def test_cold_phase_restarts_server_with_evicted_files(shared_shell: Shell, measured: Ended) -> None:
    for attempt in shared_shell.attempts("postgresql"):
        cold = attempt["samples"][-1]
        assert (cold["phase"], cold["temperature"]) == ("rand-key-cold", "cold")
        assert cold["residency"]["resident_bytes"] * 100 <= cold["residency"]["file_bytes"]
        assert cold["server"]["read_bytes"] > 0
        assert cold["void"] is None


def test_user_settings_reach_server_and_label_the_row(shared_shell: Shell, measured: Ended) -> None:
    assert "postgresql:set.work_mem=5MB+set.max_wal_size=2GB" in measured.out
    assert "settings that you gave" in measured.out
    plain, given = sorted(shared_shell.attempts("postgresql"), key=lambda attempt: int(attempt["cell"]))
    assert (given["settings"]["work_mem"], given["settings"]["max_wal_size"]) == ("5MB", "2GB")
    assert (plain["settings"]["work_mem"], plain["settings"]["max_wal_size"]) == ("4MB", "1GB")
    shown = shared_shell.dyno("show", shared_shell.file).out
    (line,) = (line for line in shown.splitlines() if "work_mem is" in line)
    assert "4MB with postgresql" in line and "5MB with postgresql:set" in line
    assert "not known" not in shown


def test_several_clients_of_one_server_are_valid(shell: Shell) -> None:
    chosen = small(samples=1, phases="insert-blind-indices,rand-key,mixed", clients=3)
    ended = shell.dyno("run", "records", "-e", "postgresql", *chosen, "-o", shell.file)
    assert ended.status == 0, ended
    (attempt,) = shell.attempts("postgresql")
    assert [sample["void"] for sample in attempt["samples"]] == [None] * 3
    assert attempt["resources"]["client"]["peak_resident_bytes"] > 10 << 20
    assert shell.strays() == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("fsync=off", "fsync is not to be set here"),
        ("jit", "expected NAME=VALUE"),
    ],
)
def test_invalid_settings_are_a_one_line_error(shell: Shell, given: str, said: str) -> None:
    ended = shell.dyno("run", "records", "-e", f"postgresql:set={given}", "-o", shell.file)
    assert ended.status == 2, ended
    assert said in ended.err
    assert len(ended.err.strip().splitlines()) == 1


def test_unknown_setting_reports_the_servers_message(shell: Shell) -> None:
    chosen = small(samples=1, phases="rand-key")
    ended = shell.dyno("run", "records", "-e", "postgresql:set=jot=on", *chosen, "-o", shell.file)
    assert ended.status == 3, ended
    assert 'unrecognized configuration parameter "jot"' in ended.out
    assert shell.left() == []


@pytest.mark.claim("A server ends with its trial, however the trial ends")
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_killed_leaves_no_server(shell: Shell, by: signal.Signals) -> None:
    before = segments()
    with shell.started("run", "records", "-e", "postgresql", *LONG, "-o", shell.file) as run:
        assert wait_for(lambda: len(postgres(shell)) > 3), "the server is there"
        os.kill(run.pid, by)
        run.wait()
        assert shell.strays() == []
    assert wait_for(lambda: segments() <= before, seconds=5)
    left = [path for path in shell.work.iterdir() if path.name != "server.log"]
    if by is signal.SIGINT:
        assert left == []
        return
    assert left, "which is what the next run is for"
    assert "killed runs left 1 directory" in shell.dyno("doctor", "--work", shell.work).out
    again = shell.dyno("run", "records", "-e", "sqlite", *small(samples=1), "-o", shell.home / "again.json")
    assert again.status == 0
    assert list(shell.work.iterdir()) == []
    assert "left" not in shell.dyno("doctor", "--work", shell.work).out


@pytest.mark.claim("A server ends with its trial, however the trial ends")
def test_next_run_kills_server_that_outlived_its_run(shell: Shell) -> None:
    """Usually the kernel ends the server, so another process stands in for a server that outlived its run."""
    home = shell.work / "dyno-run-left" / "trial-0-0-0" / "server"
    home.mkdir(parents=True)
    (shell.work / "dyno-run-left").chmod(0o700)
    (shell.work / "dyno-run-left" / ".dyno-run-lock").touch()
    with psutil.Popen(["sleep", "600"]) as left:
        leftover_processes.record_process(home, left.pid)
        assert f"sleep {left.pid}" in shell.dyno("doctor", "--work", shell.work).out
        assert shell.dyno("run", "records", "-e", "sqlite", *small(samples=1), "-o", shell.file).status == 0
        assert left.wait(5) == -signal.SIGKILL
    assert list(shell.work.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to another user")
def test_process_recorded_by_another_user_is_not_killed(shell: Shell) -> None:
    """In a shared work directory, any user can record a process that root would then kill."""
    planted = shell.work / "dyno-run-planted"
    planted.mkdir(0o700, parents=True)
    (planted / ".dyno-run-lock").touch()
    with psutil.Popen(["sleep", "600"]) as victim:
        leftover_processes.record_process(planted, victim.pid)
        for path in (planted, *planted.iterdir()):
            os.chown(path, 65_534, 65_534)
        assert str(victim.pid) not in shell.dyno("doctor", "--work", shell.work).out
        assert shell.dyno("run", "records", "-e", "memory", *small(samples=1), "-o", shell.file).status == 0
        assert victim.poll() is None
        victim.kill()
    assert planted.exists()
    shutil.rmtree(planted)


# -- a user's own server ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server_url(shared_shell: Shell) -> Iterator[str]:
    """The address of a server on a port, with a user that has a password."""
    require(SPEC)
    server = PostgreSQL(shared_shell.work.parent / "own", {"fsync": "off", "listen_addresses": "127.0.0.1"}, 1)
    server.command = [
        word.replace("listen_addresses=", "listen_addresses=127.0.0.1") if word == "listen_addresses=" else word
        for word in server.command
    ]
    port = str(free_port())
    server.command[server.command.index("-p") + 1] = port
    with closing(server):
        server.start()
        import psycopg
        from psycopg.conninfo import make_conninfo

        with psycopg.connect(make_conninfo(**{**server.address, "port": port}), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE u LOGIN PASSWORD '{PLAIN}'")
            connection.execute("CREATE DATABASE own OWNER u")
            connection.execute("CREATE DATABASE other")
        hba = server.data / "pg_hba.conf"
        hba.write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        (pid,) = server.pids()
        os.kill(pid, signal.SIGHUP)
        yield f"postgresql://u:{SECRET}@127.0.0.1:{port}/own"


@pytest.fixture
def url(server_url: str) -> Iterator[str]:
    """The server's address. Each test finds it without a schema of Dyno and with the settings at their defaults."""
    import psycopg

    yield server_url
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute("ALTER ROLE u RESET ALL")
        for name in schemas(server_url):
            connection.execute(f"DROP SCHEMA {name} CASCADE")


def everything(shell: Shell, said: Any) -> str:
    """All output, and every file in the working directory."""
    files = "".join(path.read_text(errors="replace") for path in shell.home.rglob("*") if path.is_file())
    return files + said.out + said.err


def schemas(url: str) -> list[str]:
    import psycopg

    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'dyno%'").fetchall()
        return [name for (name,) in rows]


@pytest.mark.claim("A user's server is left as it was and is not stopped")
@pytest.mark.claim("A secret in an address is in no run file, report or error")
def test_users_server_is_measured_and_left_unchanged(shell: Shell, url: str) -> None:
    chosen = small(samples=1, phases="insert-blind-indices,rand-key,rand-key-cold")
    ended = shell.dyno("run", "records", "-e", f"postgresql:url={url}", *chosen, "-o", shell.file)
    assert ended.status == 0, ended
    (attempt,) = shell.attempts("postgresql")
    assert [sample["phase"] for sample in attempt["samples"]] == ["insert-blind-indices", "rand-key"]
    assert [sample["server"] for sample in attempt["samples"]] == [None, None]
    assert "which is your own" in attempt["absent"]["rand-key-cold"]
    assert "declared" in [caveat["code"] for caveat in attempt["caveats"]]
    assert schemas(url) == []
    # All texts in the report, too.
    report = shell.dyno("report", shell.file, "-o", shell.home / "r.html")
    assert report.status == 0, report
    # The table identifies a server only by its address.
    for flags, label in ((), "at 127.0.0.1:"), (("--json",), "u:***@127.0.0.1"), (("--csv",), "u:***@127.0.0.1"):
        shown = shell.dyno("show", shell.file, *flags)
        assert label in shown.out
        assert SECRET not in shown.out + shown.err
    for secret in (SECRET, PLAIN):
        assert secret not in everything(shell, ended)


def test_users_server_tier_follows_from_its_settings(shell: Shell, url: str) -> None:
    """Two runs; the administrator changes a setting between them."""
    import psycopg

    runs = shell.home / "on.json", shell.home / "off.json"
    command = ("run", "records", "-e", f"postgresql:url={url}", *small(samples=1, phases="rand-key"))
    for run, value in zip(runs, ("on", "off"), strict=True):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE u SET synchronous_commit = {value}")
        ended = shell.dyno(*command, "-o", run)
        assert ended.status == 0, ended
        again = shell.dyno(*command, "-o", run, "--resume")
        assert again.status == 0, "its plan is the same, whatever tier was found"
    loaded = [results.load(run) for run in runs]
    assert [{cell.tier for cell in run.cells} for run in loaded] == [{Tier.PROCESS}, {Tier.VOLATILE}]
    for measured, tier, value in zip(loaded, ("process", "volatile"), ("on", "off"), strict=True):
        attempts = [attempt for attempt in measured.attempts if attempt.tier is not None]
        assert {attempt.settings["synchronous_commit"] for attempt in attempts if attempt.settings} == {value}
        (text,) = {c.text for attempt in attempts for c in attempt.caveats if c.code == "declared"}
        assert f"give tier {tier}" in text
        assert "fsync=off" in text and f"synchronous_commit={value}" in text
    compared = shell.dyno("compare", *runs)
    assert compared.status == 0, compared
    (line,) = [line.split() for line in compared.out.splitlines() if "synchronous_commit" in line]
    assert line[-2:] == ["on", "off"]
    assert "process → volatile" in compared.out, "with a ratio, that says of which tiers it is"


def test_requested_tier_leaves_users_server_settings_unchanged(shell: Shell, url: str) -> None:
    flags = small(samples=1, phases="rand-key", tier="volatile")
    ended = shell.dyno("run", "records", "-e", f"postgresql:url={url}", *flags, "-o", shell.file)
    assert ended.status == 0, ended
    run = results.load(shell.file)
    (attempt,) = [attempt for attempt in run.attempts if attempt.tier is not None]
    assert attempt.settings is not None
    assert attempt.settings["synchronous_commit"] == "on"
    assert (attempt.tier, run.cells[attempt.cell].tier) == (Tier.PROCESS, Tier.VOLATILE)


def test_resumed_run_stores_no_password(shell: Shell, url: str) -> None:
    words = ("run", "records", "-e", f"postgresql:url={url}", *small(samples=2), "-o", shell.file)
    assert shell.dyno(*words, "--blocks", "1").status == 0
    resumed = shell.dyno(*words, "--resume")
    assert resumed.status == 0, resumed
    assert len(shell.attempts("postgresql")) == 2
    assert SECRET not in everything(shell, resumed)


@pytest.mark.claim("A secret in an address is in no run file, report or error")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((SECRET, "wr0ng-Secret"), "password authentication failed"),
        (("/own", "/nowhere"), 'database "nowhere" does not exist'),
        (("postgresql://", "mysql://"), "expected an address that begins with postgresql:// or postgres://"),
        (("/own", "/own+client"), "expected postgresql:option=value"),
    ],
)
def test_address_errors_omit_the_password(shell: Shell, url: str, change: tuple[str, str], said: str) -> None:
    wrong = url.replace(*change)
    ended = shell.dyno("run", "records", "-e", f"postgresql:url={wrong}", *small(samples=1), "-o", shell.file)
    assert ended.status in (1, 2, 3), ended
    assert said in ended.out + ended.err
    assert "stays on" not in ended.out + ended.err
    for secret in (SECRET, PLAIN, "wr0ng-Secret"):
        assert secret not in everything(shell, ended)


@pytest.mark.claim("A tier that a user's server does not provide is refused")
def test_tier_beyond_users_server_settings_is_refused(shell: Shell, url: str) -> None:
    words = ("-e", f"postgresql:url={url}", "--tier", "power", *small(samples=1), "-o", shell.file)
    ended = shell.dyno("run", "records", *words)
    assert ended.status == 3, ended
    assert "the server has fsync=off, so that it can't give tier power" in ended.out


@pytest.mark.claim("A user's server is left as it was and is not stopped")
def test_next_run_removes_schema_of_killed_run(shell: Shell, url: str) -> None:
    words = ("run", "records", "-e", f"postgresql:url={url}")
    with shell.started(*words, *LONG, "-o", shell.file) as run:
        assert wait_for(lambda: schemas(url))
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        assert shell.strays() == []
    assert schemas(url) != []
    assert shell.dyno(*words, *small(samples=1), "-o", shell.home / "again.json").status == 0
    assert schemas(url) == []


def test_missing_create_privilege_is_refused_by_name(shell: Shell, url: str) -> None:
    other = url.replace("/own", "/other")
    ended = shell.dyno("run", "records", "-e", f"postgresql:url={other}", *small(samples=1), "-o", shell.file)
    assert ended.status == 3, ended
    (attempt,) = shell.attempts("postgresql")
    assert attempt["outcome"] == "refused"
    assert "CREATE on database other" in attempt["why"]


@pytest.mark.claim("A user's server is left as it was and is not stopped")
def test_timed_out_trial_leaves_no_schema(shell: Shell, url: str) -> None:
    with shell.started(
        *("run", "records", "-e", f"postgresql:url={url}", *LONG, "--samples", 1, "--retries", 0),
        *("--timeout", 5, "-o", shell.file),
    ) as run:
        assert wait_for(lambda: schemas(url)), "the trial has a store"
        out, err = run.communicate()
    assert "timeout" in out
    assert schemas(url) == []
    assert "stays on" not in out + err


@pytest.mark.claim("A user's server is left as it was and is not stopped")
@pytest.mark.parametrize("to", ["worker", "run"])
def test_killed_or_interrupted_trial_leaves_no_schema(shell: Shell, url: str, to: str) -> None:
    words = ("run", "records", "-e", f"postgresql:url={url}", *LONG, "--samples", 1, "--retries", 0)
    with shell.started(*words, "-o", shell.file) as run:
        assert wait_for(lambda: schemas(url))
        if to == "run":
            os.kill(run.pid, signal.SIGINT)
        else:
            assert wait_for(shell.workers)
            for pid in shell.workers():
                os.kill(pid, signal.SIGKILL)
        out, err = run.communicate()
    assert schemas(url) == []
    assert "stays on" not in out + err
    assert to == "run" or "SIGKILL" in out


def is_settled(url: str) -> bool:
    """Whether exactly one schema exists, and is still the only one half a second later."""
    before = schemas(url)
    time.sleep(0.5)
    return len(before) == 1 and schemas(url) == before


def test_unremovable_schema_is_named_with_removal_command(shell: Shell, url: str) -> None:
    """A schema can't be dropped while another session uses it."""
    import psycopg

    words = ("run", "records", "-e", f"postgresql:url={url}", *LONG, "--samples", 1, "--retries", 0)
    with (
        shell.started(*words, "--timeout", 5, "-o", shell.file) as run,
        psycopg.connect(url, autocommit=True) as other,
    ):
        # Conformance checks create and drop other schemas before the measured one.
        assert wait_for(lambda: is_settled(url))
        other.execute("ALTER ROLE u SET statement_timeout = '200ms'")
        (name,) = schemas(url)
        assert wait_for(lambda: other.execute("SELECT to_regclass(%s)", (f"{name}.records",)).fetchone() != (None,))
        with other.transaction():
            other.execute(f"SELECT count(*) FROM {name}.records")
            _, err = run.communicate()
        other.execute("ALTER ROLE u RESET statement_timeout")
    command = re.search("psql .* CASCADE'", err)
    assert command is not None and name in command[0] and SECRET not in err, err
    (attempt,) = shell.attempts("postgresql")
    assert command[0] in attempt["why"] and "statement timeout" in attempt["why"]
    # The command has no password: psql asks for it, or reads it from the environment.
    assert shell.sh("env", f"PGPASSWORD={unquote(SECRET)}", "bash", "-c", command[0]).status == 0
    assert schemas(url) == []


@pytest.fixture(params=["transaction", "session", "statement"])
def pooler(request: pytest.FixtureRequest, place: Path, url: str) -> Iterator[str]:
    """A connection pooler in front of the server."""
    path = program("pgbouncer")
    if path is None:
        unavailable("pgbouncer is not installed")
    port = free_port()
    server = urlsplit(url).port
    user = unprivileged("postgres")
    home = directory(place / "pooler", user)
    (home / "users").write_text(f'"u" "{PLAIN}"\n')
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "plain",
        "auth_file": home / "users",
        "pool_mode": request.param,
        "default_pool_size": 2,
        # pgbouncer rejects these startup parameters by default; users with such clients set this option.
        "ignore_startup_parameters": "extra_float_digits,options",
    }
    words = "".join(f"{name} = {value}\n" for name, value in settings.items())
    (home / "ini").write_text(f"[databases]\n* = host=127.0.0.1 port={server}\n[pgbouncer]\n{words}")
    for file in home.iterdir():
        file.chmod(0o644)
    through = url.replace(f":{server}/", f":{port}/")

    def answers() -> bool:
        import psycopg

        with suppress(psycopg.OperationalError), psycopg.connect(through, prepare_threshold=None):
            return True
        return False

    with closing(Process([str(path), "ini"], home, answers, user)) as process:
        process.start()
        yield through


def test_pooler_is_refused_and_its_sessions_left_unchanged(shell: Shell, pooler: str, url: str) -> None:
    import psycopg

    chosen = small(samples=1, retries=0, phases="insert,rand-key")
    ended = shell.dyno("run", "records", "-e", f"postgresql:url={pooler}", *chosen, "-o", shell.file)
    with psycopg.connect(pooler, autocommit=True, prepare_threshold=None) as session:
        assert session.execute("SHOW search_path").fetchone() == ('"$user", public',)
        assert session.execute("SELECT name FROM pg_prepared_statements").fetchall() == []
        changed = "SELECT name FROM pg_settings WHERE source = 'session'"
        assert session.execute(changed).fetchall() == []
    assert ended.status == 3 and "pooler" in ended.out, ended
    assert schemas(url) == []


def test_server_address_is_validated_when_parsed() -> None:
    setting = user_server.setting("postgresql")
    assert setting.address
    assert setting.parse("") == ""
    with pytest.raises(ValueError, match="expected an address"):
        setting.parse("localhost:5432")
    with pytest.raises(ValueError, match="%2F"):
        setting.parse("postgresql://u:a/b@h:5432/x")
    assert Tier.POWER in SPEC.tiers
