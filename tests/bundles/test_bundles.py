"""Guards bundles: what was changed is refused in one line, and what says where a run was made is not in them."""

from __future__ import annotations

import io
import json
import random
import zipfile
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from shell import TESTS, run_line

from dyno import results
from dyno.bundles import anonymous, bundle, container
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import UsageError

RUN = TESTS / "data" / "run-schema-3.json"
Data = dict[str, Any]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "r.dyno"
    path.write_bytes(bundle.pack(RUN))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as refused, bundle.open_bundle(path):
        pass
    line = str(refused.value)
    assert len(line.splitlines()) == 1 and str(path) in line
    return line


def changed(tmp_path: Path, change: Callable[[Data, list[Data]], None]) -> Path:
    """A run file with a change to its header and its trials."""
    header, *trials = [json.loads(line) for line in RUN.read_text().splitlines()]
    change(header, trials)
    path = tmp_path / "r.json"
    path.write_bytes(encoded(header, *trials))
    return path


def encoded(*lines: Data) -> bytes:
    return b"".join(map(run_line, lines))


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None], listed: bool = True) -> Path:
    """The bundle with other members, and everything hashed again, as by somebody who means harm. `listed`: the
    manifest is right for the new members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    if listed:
        manifest = json.loads(members[container.MANIFEST])
        for each in manifest["members"]:
            content = members[each["name"]]
            each |= {"bytes": len(content), "sha256": container.digest(content)}
        members[container.MANIFEST] = json.dumps(manifest).encode()
    return archived(path, members)


def archived(path: Path, members: Mapping[str, bytes]) -> Path:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = container.MARK + b"0" * container.HASH
    path.write_bytes(container.append_checksum(buffer.getvalue()))
    return path


@pytest.mark.claim("A bundle has the run's samples, its plan and the same bytes every time")
def test_a_bundle_has_the_run_and_its_plan(packed: Path) -> None:
    assert packed.read_bytes() == bundle.pack(RUN)
    original = results.load(RUN)
    with bundle.open_bundle(packed) as found:
        assert [a.samples for a in found.run.attempts] == [a.samples for a in original.attempts]
        assert found.run.cells == original.cells
        assert found.plan["suite"] == original.plan.suite
        assert found.plan["phases"] == list(original.plan.phases)
        home = found.home
    assert not home.exists()


@pytest.mark.claim("A changed byte of a bundle is noticed")
def test_changed_or_truncated_bundle_is_refused(packed: Path) -> None:
    content, draws = packed.read_bytes(), random.Random(42)
    for _ in range(1_000):
        at = draws.randrange(len(content))
        damaged = bytearray(content)
        damaged[at] ^= draws.randrange(1, 256)
        packed.write_bytes(damaged)
        refusal(packed)
    for cut in (0, 1, 100, len(content) - 1):
        packed.write_bytes(content[:cut])
        refusal(packed)


def test_another_file_is_not_a_bundle(tmp_path: Path) -> None:
    assert "not a bundle" in refusal(RUN)
    assert "can't read" in refusal(tmp_path / "none.dyno")


def swap(members: dict[str, bytes]) -> None:
    members["run.json"], members["plan.toml"] = members["plan.toml"], members["run.json"]


def forge(members: dict[str, bytes]) -> None:
    """Makes the first histogram that of faster operations, of which there are fewer."""
    header, *trials = [json.loads(line) for line in members["run.json"].splitlines()]
    sample = next(s for trial in trials for s in trial["samples"] if s.get("histogram"))
    recorder = Recorder()
    recorder.add([1] * (sample["operations"] - 1))
    sample["histogram"] = b64encode(recorder.encode() or b"").decode()
    members["run.json"] = encoded(header, *trials)


def faster(members: dict[str, bytes]) -> None:
    header, *trials = [json.loads(line) for line in members["run.json"].splitlines()]
    for trial in trials:
        for sample in trial["samples"]:
            if not header["cells"][trial["cell"]]["floor"]:
                sample["elapsed_ns"] = max(sample["elapsed_ns"] // 10_000, 1)
                sample["busy_ns"] = min(sample["busy_ns"], sample["elapsed_ns"])
                sample["histogram"] = None
                sample["by_kind"] = {}
    members["run.json"] = encoded(header, *trials)


@pytest.mark.claim("A forged bundle is refused in one line, where its numbers contradict each other")
@pytest.mark.parametrize(
    ("change", "listed", "says"),
    [
        (swap, False, "is not the member that the manifest lists"),
        (swap, True, "run.json is not a run file"),
        (forge, True, "the histogram has"),
        (faster, True, "an engine that does nothing"),
        (lambda members: members.pop("plan.toml"), False, "lists other members"),
        (lambda members: members.update({"more.json": b"{}"}), False, "lists other members"),
        (lambda members: members.update({"manifest.json": b"[]"}), False, "damaged"),
        (lambda members: members.update({"manifest.json": b"[" * 100_000}), False, "damaged"),
        (
            lambda members: members.update({"manifest.json": b" " * (1 << 20) + b"{}"}),
            False,
            "manifest has more than",
        ),
        (lambda members: members.update({"../outside": b"x"}), False, "the name of a member"),
        (lambda members: members.update({"/etc/outside": b"x"}), False, "the name of a member"),
        (lambda members: members.update({"data/../../x": b"x"}), False, "the name of a member"),
        (lambda members: members.update({f"data/{at}": b"" for at in range(100)}), False, "members, of"),
        (lambda members: members.update({"RUN.json": b"x"}), False, "the same name"),
    ],
)
def test_forged_and_resealed_bundle_is_refused(
    packed: Path, change: Callable[[dict[str, bytes]], None], listed: bool, says: str
) -> None:
    assert says in refusal(rewritten(packed, change, listed))


def test_zip_bomb_is_not_unpacked(packed: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("run.json", "w", force_zip64=True) as member:
            piece = bytes(1 << 24)
            for _ in range(container.MOST_UNPACKED // len(piece) + 1):
                member.write(piece)
        archive.comment = container.MARK + b"0" * container.HASH
    packed.write_bytes(container.append_checksum(buffer.getvalue()))
    assert "unpacked it has" in refusal(packed)


# -- what is not in a bundle ----------------------------------------------------------------------------------

PLACES = {
    "path": "can't open /home/alice/secret-project/data.db: no such file",
    "home": "see ~/notes/plan.txt",
    "host": "buildhost7.example.org refused",
    "address": "10.11.12.13 and fe80:0:0:0:1:2:3:4 and 2001:db8::17",
    "url": "postgresql://alice@db.internal:5432/prod?sslmode=require",
    "mail": "ask alice@example.org",
}
GONE = ("/home/alice", "secret-project", "~/notes", "buildhost7", "10.11.12.13", "2001:db8", "db.internal", "alice")


@pytest.mark.claim("A bundle has no path, host name, user name or address")
def test_bundle_omits_paths_hosts_users_and_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"buildhost7.example.org": anonymous.HOST_MARK, "alice": anonymous.USER_MARK}
    monkeypatch.setattr(bundle, "names_of_this_machine", lambda: names)

    def plant(header: Data, trials: list[Data]) -> None:
        header["host"]["filesystem"] = {"mount_point": "/home/alice", "device": "/dev/alice", "type": "ext4"}
        trials[0]["output"] = "/home/alice secret-project"
        trials[0]["samples"][0]["first_error"] = "; ".join(PLACES.values())
        trials[0]["settings"] = {f"setting_{name}": text for name, text in PLACES.items()}
        trials[0]["version"] = "Redis 7.0.15.1"

    content = bundle.pack(changed(tmp_path, plant))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        text = "".join(archive.read(name).decode() for name in archive.namelist())
    assert [name for name in GONE if name in text] == []
    assert "7.0.15.1" in text and "postgresql://server-1" in text and "ext4" in text


SECRETS = [
    "-----BEGIN RSA PRIVATE KEY----- MIIEpAIBAAKCAQEA",
    "-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXkt",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    f"ghp_{'a1B2' * 9}",
    f"github_pat_{'a1B2' * 10}",
    f"glpat-{'a1B2' * 5}",
    f"xoxb-{'1234' * 5}",
    f"AIza{'a' * 35}",
    f"sk_live_{'a1B2' * 5}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "Authorization: Basic dXNlcjpodW50ZXIy",
    "Bearer abcdefghijklmnop1234",
    "X-Api-Key: hunter2hunter2",
    "Cookie: session=hunter2",
    "password=hunter2",
    "PGPASSWORD=hunter2",
    'password: "hunter2"',
    "requirepass=hunter2",
    "secret=hunter2",
    "api_key=hunter2",
    "token: hunter2",
    "CREATE USER u IDENTIFIED BY 'hunter2'",
    "postgresql://u:hunter2@h/db",
    "redis://:hunter2@h:6379/0",
]


def in_text(header: Data, trials: list[Data], secret: str) -> None:
    trials[0]["samples"][0]["first_error"] = f"it said {secret}, and ended"


def in_setting(header: Data, trials: list[Data], secret: str) -> None:
    trials[0]["settings"] = {"init": secret}


@pytest.mark.claim("What looks like a secret is not published")
@pytest.mark.parametrize("where", [in_text, in_setting])
@pytest.mark.parametrize("secret", SECRETS)
def test_planted_secret_is_refused_or_removed(
    tmp_path: Path, where: Callable[[Data, list[Data], str], None], secret: str
) -> None:
    path = changed(tmp_path, lambda header, trials: where(header, trials, secret))
    try:
        content = bundle.pack(path)
    except UsageError as error:
        assert "looks like" in str(error) and "hunter2" not in str(error)
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        text = archive.read("run.json").decode()
    assert "hunter2" not in text and secret not in text


def test_a_parameter_that_names_a_path_is_refused(tmp_path: Path) -> None:
    def named(header: Data, trials: list[Data]) -> None:
        for cell in header["cells"]:
            cell["params"]["archive"] = "/home/alice/archive"

    with pytest.raises(UsageError, match=r"params\.archive of row 1"):
        bundle.pack(changed(tmp_path, named))


def test_bundle_too_large_to_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "MOST_UNPACKED", 1_000)
    with pytest.raises(UsageError, match="unpacked it has"):
        bundle.pack(RUN)


@pytest.mark.parametrize(
    ("least", "expected"),
    [(1, {"until": "12.5%", "within": 600.0}), (6, {})],
    ids=["own", "of the preset"],
)
def test_bundle_plan_keeps_the_runs_stopping_rule(tmp_path: Path, least: int, expected: dict[str, Any]) -> None:
    def until_narrow(header: Data, trials: list[Data]) -> None:
        header["preset"] = "quick"
        header["plan"] |= {"until": 0.125, "within": 600.0, "least": least}

    plan = bundle.plan_of(results.load(changed(tmp_path, until_narrow)))
    assert {name: plan[name] for name in ("until", "within") if name in plan} == expected


def test_ordinary_settings_are_no_secrets() -> None:
    for text in ("password_encryption=scram-sha-256", '"password":"***"', "ssl=on", "hash=4cc120", "tokens 5"):
        assert anonymous.secret_in(text) is None, text


def test_contradictory_run_is_not_bundled(tmp_path: Path) -> None:
    def more(header: Data, trials: list[Data]) -> None:
        next(s for trial in trials for s in trial["samples"] if s.get("histogram"))["operations"] += 1

    with pytest.raises(UsageError, match="contradicts itself"):
        bundle.pack(changed(tmp_path, more))
