"""Runs the suite volume like a user: on a directory and on a device; requests refused before anything starts; and
full or failing volumes, which are reported while the run continues.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loops import CONTENTS, MIB, digest, ext4, image, loop_device, mounted, require_loop_devices
from needed import require
from shell import Shell, is_one_line

from dyno import registry

pytestmark = pytest.mark.usefixtures("processes")

SUITE = registry.suite("volume")
WHOLE = ["whole-write", "whole-read"]
PHASES = [phase.name for phase in SUITE.phases if phase.name not in WHOLE]
FEW = {"area": "2m", "block_size": "4k", "depth": "1"}


def words(**given: str) -> tuple[object, ...]:
    """Command of a very short run with these parameters."""
    params = [word for name, value in {**FEW, **given}.items() for word in ("-p", f"{name}={value}")]
    return ("run", "volume", *params, "--budget", 0.1, "--samples", 1, "-o", "r.json", "--overwrite")


RUN = words(warm="1")


@pytest.fixture(autouse=True)
def there() -> None:
    require(registry.engine("fio"))


def sampled(shell: Shell, engine: str = "fio") -> dict[str, dict[str, Any]]:
    return {sample["phase"]: sample for line in shell.attempts(engine) for sample in line["samples"]}


@pytest.fixture
def link(tmp_path: Path) -> Path:
    return tmp_path / "link"


# -- on a directory -------------------------------------------------------------------------------------------


def test_every_phase_reports_its_tools_figures(shell: Shell) -> None:
    ended = shell.dyno(*RUN, "-e", "fio")
    assert ended.status == 0, ended.out + ended.err
    samples = sampled(shell)
    assert list(samples) == PHASES
    for name, sample in samples.items():
        assert sample["void"] is None and sample["checked"] > 0 and sample["errors"] == 0, name
        assert sample["reported_by"].startswith("dd " if name.startswith("dd") else "fio ")
        assert sample["bytes"] == sample["items"] * 4096, name
        # The recorded command is one that a user could type.
        assert sample["facts"]["command"].startswith(sample["reported_by"].split()[0])
        # dd reports no latency.
        assert (sample["histogram"] is None) == name.startswith("dd"), name
    assert set(samples["rand-mixed"]["by_kind"]) == set(samples["seq-mixed"]["by_kind"]) == {"read", "write"}
    assert set(samples["flush"]["by_part"]) == {"writing", "flushing"}
    assert {"submission", "completion"} >= set(samples["rand-read"]["by_part"]) > set()
    assert "dd beside fio" in ended.out and "dd fdatasync" in ended.out
    assert samples["dd"]["facts"]["flush_after_ns"] > 0


def test_warmup_has_chart_and_steady_state_facts(shell: Shell) -> None:
    ended = shell.dyno(*words(warm="3"), "-e", "fio", "--phases", "warm-up")
    assert ended.status == 0, ended.out + ended.err
    facts, points = sampled(shell)["warm-up"]["facts"], sampled(shell)["warm-up"]["series"]
    assert facts["fresh_by"].startswith("a new file")
    assert facts["steady"] is (facts["steady_after_ns"] is not None) is (facts["penalty_percent"] is not None)
    assert len(points) >= 2 and {point["interval_ns"] for point in points} == {facts["round_ns"]}
    assert [point["from_ns"] // facts["round_ns"] for point in points] == list(range(len(points)))
    drawn = shell.dyno("plot", "r.json", "--chart", "series", "-o", "w.svg")
    assert drawn.status == 0 and (shell.home / "w.svg").stat().st_size > 0, drawn.err


def test_single_request_phases_run_at_depth_one_only(shell: Shell) -> None:
    ended = shell.dyno(*words(depth="2"), "-e", "fio:ioengine=sync,fio", "--phases", "rand-read,flush,dd")
    assert ended.status == 0, ended.out + ended.err
    assert list(sampled(shell)) == ["rand-read"]
    absent = {line["cell"]: set(line["absent"]) for line in shell.attempts()}
    assert sorted(map(len, absent.values())) == [2, 2, 3], "the one that waits has none of them"


def test_sizes_and_depths_yield_sweeps_and_iops_curve(shell: Shell) -> None:
    ended = shell.dyno(*words(block_size="4k,64k", depth="1,4"), "-e", "fio", "--phases", "rand-read")
    assert ended.status == 0, ended.out + ended.err
    assert "op/s by block_size" in ended.out
    drawn = shell.dyno("plot", "r.json", "--chart", "iops-latency", "-o", "-")
    assert drawn.status == 0 and "IOPS" in drawn.out, drawn.err


def test_missing_fio_names_the_install_command(shell: Shell, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "dd").symlink_to(shutil.which("dd") or "dd")
    shell.given["PATH"] = str(programs)
    for more in ((), ("-e", "fio")):
        ended = shell.run_here("run", "volume", *more, "-o", "r.json")
        assert ended.status == 2 and is_one_line(ended.err), ended.err
        assert "dyno install fio" in ended.err
    assert not shell.file.exists()


# -- refusals -------------------------------------------------------------------------------------------------


def refused(shell: Shell, *more: object) -> str:
    """Checks that the run is refused before anything starts. Returns the line with the reason."""
    ended = shell.run_here(*RUN, *more)
    assert ended.status == 2 and is_one_line(ended.err) and not ended.out, ended.out + ended.err
    assert not shell.file.exists()
    return ended.err


def test_non_device_is_refused_before_the_run(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    assert "is not a block device" in refused(shell, "-e", f"fio:destroy={tmp_path / 'file'}")
    assert "can't be opened" in refused(shell, "-e", f"fio:destroy={tmp_path / 'nothing'}")
    assert (tmp_path / "file").read_bytes() == b"data"


@pytest.mark.claim("A device is overwritten only if an option names it, nobody uses it and nothing is on it")
def test_device_is_overwritten_only_by_option_destroy(shell: Shell, tmp_path: Path) -> None:
    file = image(tmp_path / "image")
    before = digest(file)
    with loop_device(file) as device:
        assert "device is not known" in refused(shell, "-p", f"device={device}")
        assert "device is not known" in refused(shell, "-e", f"fio:device={device}")
        refused(shell, "-e", "fio", "--work", device)
    assert digest(file) == before


@pytest.mark.claim("A device is overwritten only if an option names it, nobody uses it and nothing is on it")
@pytest.mark.parametrize("kind", CONTENTS)
def test_device_with_content_is_refused_by_any_path(kind: str, shell: Shell, tmp_path: Path, link: Path) -> None:
    file = image(tmp_path / "image")
    CONTENTS[kind](file)
    before = digest(file)
    with loop_device(file) as device:
        link.symlink_to(device)
        # Each kind uses one of the device's two names, to save time; `test_blockdevice.py` tests both.
        path = device if kind in ("ext4", "swap", "gpt") else link
        assert "wipefs" in refused(shell, "-e", f"fio:destroy={path}")
    assert digest(file) == before


def test_a_mounted_device_is_refused(shell: Shell, tmp_path: Path, link: Path) -> None:
    file = image(tmp_path / "image")
    ext4(file)
    with loop_device(file) as device, mounted(device, tmp_path / "there", "-o", "ro,noload"):
        link.symlink_to(device)
        before = digest(file)
        for path in (device, link):
            assert "is mounted" in refused(shell, "-e", f"fio:destroy={path}")
    assert digest(file) == before


def test_device_is_shared_by_rows_with_same_path(shell: Shell, tmp_path: Path, link: Path) -> None:
    with loop_device(image(tmp_path / "image")) as device:
        link.symlink_to(device)
        both = f"fio:destroy={device},fio:destroy={device}+ioengine=sync"
        ended = shell.dyno(*words(), "-e", both, "--phases", "rand-read")
        assert ended.status == 0, ended.out + ended.err
        shell.file.unlink()
        assert "is in use" in refused(shell, "-e", f"fio:destroy={device},fio:destroy={link}")


# -- on a device ----------------------------------------------------------------------------------------------


def test_device_is_written_only_within_the_area(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "image"
    file.write_bytes(b"\xa7" * 4 * MIB)
    with loop_device(file) as device:
        ended = shell.dyno(*RUN, "-e", f"fio:destroy={device}")
        assert ended.status == 0, ended.out + ended.err
        samples = sampled(shell)
        assert list(samples) == PHASES and not any(sample["void"] for sample in samples.values())
        # Traffic of the device rather than of the work directory's disk.
        moved = samples["seq-write"]["device"]["written_bytes"]
        assert moved is None or moved >= samples["seq-write"]["bytes"]
    assert file.stat().st_size == 4 * MIB
    assert file.read_bytes()[2 * MIB :] == b"\xa7" * 2 * MIB, "what is beyond area"
    assert file.read_bytes()[: 2 * MIB] != b"\xa7" * 2 * MIB


def test_whole_device_phases_cover_every_block(shell: Shell, tmp_path: Path) -> None:
    file, area = image(tmp_path / "image"), 4 * MIB
    phases = ["dd-urandom", "dd-fdatasync", "dd-read", *WHOLE]
    with loop_device(file) as device:
        given = words(area="4m", block_size="1m")
        ended = shell.dyno(*given, "-e", f"fio:destroy={device}", "--phases", ",".join(phases))
        assert ended.status == 0, ended.out + ended.err
        samples = sampled(shell)
    assert list(samples) == phases
    assert {name: (sample["bytes"], sample["void"]) for name, sample in samples.items()} == dict.fromkeys(
        phases, (area, None)
    )
    commands = {name: sample["facts"]["command"] for name, sample in samples.items()}
    assert "if=/dev/urandom" in commands["dd-urandom"] and "of=/dev/null" in commands["dd-read"]
    assert all(f"--bs={MIB} " in commands[name] and "--numjobs=4 " in commands[name] for name in WHOLE)
    # Not one block is still a zero of the image or of dd.
    data = file.read_bytes()[:area]
    assert all(any(data[at : at + MIB]) for at in range(0, area, MIB))


def test_area_larger_than_device_is_refused_unwritten(shell: Shell, tmp_path: Path) -> None:
    file = image(tmp_path / "image", MIB)
    before = digest(file)
    with loop_device(file) as device:
        ended = shell.dyno(*RUN, "-e", f"fio:destroy={device}")
    assert ended.status == 3 and "-p area=1m" in ended.out, ended.out + ended.err
    assert digest(file) == before, "it was written to"


def test_nothing_beyond_a_small_area_is_written(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "image"
    file.write_bytes(b"\xa7" * MIB)
    with loop_device(file) as device:
        ended = shell.dyno(*words(area="64k"), "-e", f"fio:destroy={device}", "--phases", "rand-write")
    assert ended.status == 0, ended.out + ended.err
    assert file.read_bytes()[64 << 10 :] == b"\xa7" * (MIB - (64 << 10))


# -- refusals by the kernel or the file system ----------------------------------------------------------------

WITHOUT_IO_URING = """#!{python}
import ctypes, os, struct, sys

# Load the system call's number; io_uring_setup (425 on every architecture) fails with EPERM, all else is allowed.
RULES = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
rules = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in RULES))
program = struct.pack("HxxxxxxP", len(RULES), ctypes.addressof(rules))
libc = ctypes.CDLL(None)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
    sys.exit("no seccomp here")
os.execv("{fio}", ["fio", *sys.argv[1:]])
"""


def test_ioengine_refused_by_kernel_names_an_alternative(shell: Shell, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    wrapper = programs / "fio"
    wrapper.write_text(WITHOUT_IO_URING.format(python=sys.executable, fio=shutil.which("fio")))
    wrapper.chmod(0o755)
    shell.given["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    ended = shell.dyno(*words(), "-e", "fio:ioengine=io_uring,fio", "--phases", "rand-read")
    assert ended.status == 1, ended.out + ended.err
    reason = why(shell, "fio:ioengine=io_uring")["rand-read"]
    assert reason.startswith("refused") and "ioengine=libaio" in reason and "Operation not permitted" in reason, (
        reason
    )
    assert not why(shell, "fio")


def test_file_system_without_direct_io_names_the_option(shell: Shell, tmp_path: Path) -> None:
    with mounted("none", tmp_path / "ram", "-t", "ramfs") as ram:
        ended = shell.dyno(*words(), "-e", "fio,fio:direct=no", "--phases", "rand-read", "--work", ram)
    assert ended.status == 1, ended.out + ended.err
    reason = why(shell, "fio")["rand-read"]
    assert reason.startswith("refused") and "direct=no" in reason, reason
    assert not why(shell, "fio:direct=no")


# -- volumes that fail ----------------------------------------------------------------------------------------


FAILING = "warm-up,rand-read"


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    with mounted("none", tmp_path / "tiny", "-t", "tmpfs", "-o", "size=4m") as place:
        yield place


def why(shell: Shell, engine: str) -> dict[str, str]:
    """Maps the phases without a figure to their reasons."""
    return {
        phase: cell["why"] for (name, phase), cell in shell.cells().items() if name == engine and not cell["valid"]
    }


@pytest.mark.claim("A volume that is full, read-only or failing is reported, and the run goes on")
def test_full_volume_is_reported_and_run_continues(shell: Shell, tiny: Path) -> None:
    ended = shell.dyno(*words(area="32m"), "-e", "fio:direct=no", "--phases", FAILING, "--work", tiny, "--retries", 0)
    assert ended.status in (1, 3), ended.out + ended.err
    reasons = why(shell, "fio:direct=no")
    assert "No space left on device" in reasons["warm-up"], reasons
    assert sampled(shell)["warm-up"]["errors"] == 1
    assert "No space left on device" in reasons["rand-read"], reasons
    assert {line["outcome"] for line in shell.attempts("fio_null")} == {"ok"}


@pytest.mark.claim("A volume that is full, read-only or failing is reported, and the run goes on")
def test_failing_device_is_reported_and_run_continues(shell: Shell, tiny: Path) -> None:
    """The file system that holds the image has less room than the device reports."""
    with loop_device(image(tiny / "image")) as device:
        engine = f"fio:destroy={device}"
        ended = shell.dyno(*words(area="16m", warm="5"), "-e", engine, "--phases", FAILING, "--retries", 0)
    assert ended.status in (1, 3), ended.out + ended.err
    assert any(word in why(shell, engine)["warm-up"] for word in ("Input/output error", "No space left")), ended.out
    assert {line["outcome"] for line in shell.attempts("fio_null")} == {"ok"}


@pytest.mark.claim("A volume that is full, read-only or failing is reported, and the run goes on")
def test_read_only_device_is_reported_as_write_errors(place: Path) -> None:
    from dyno.suites.volume import IO

    require_loop_devices()
    spec = registry.engine("fio")
    with loop_device(image(place / "image")) as device:
        engine: Any = spec.opener(place, None, {**spec.resolve({}), "destroy": device})
        port = spec.ports["volume"].open(engine)
        port.lay(MIB)
        _set_read_only(engine.descriptor)
        report = port.run(IO("randwrite", 4096, MIB), 10**8, 0)
        read = port.run(IO("randread", 4096, MIB), 10**8, 0)
        copied = port.copy("direct", 4096, MIB)
        engine.close()
    for each in (report, copied):
        assert each.errors == 1 and each.items == 0, each
    assert report.first_error in (os.strerror(1), os.strerror(5), os.strerror(13), os.strerror(30)), report
    assert read.errors == 0 and read.items > 0


def _set_read_only(descriptor: int) -> None:
    import fcntl
    import struct

    fcntl.ioctl(descriptor, 0x125D, struct.pack("i", 1))
