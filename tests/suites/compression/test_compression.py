"""Tests the compression suite: its records compress like the published ones, the right record is read from a batch,
all cells get the same requests, wrong answers are found, and facts describe the store."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dyno import published, registry
from dyno.cli.commands import dyno as dyno_command
from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Tier, UsageError, Wrong
from dyno.contracts.suite import Failure, Job, Operations
from dyno.measure.slices import HeldTransaction
from dyno.options import RunRequest
from dyno.runner import plan, plan_file
from dyno.suites._shared.ordered_kv import KVReader
from dyno.suites.compression import PACKER_SPECS, open_packer
from dyno.suites.compression.batches import KEY_BYTES, Dataset, body, key_of
from dyno.suites.compression.workload import CompressionWorkload

SUITE = registry.suite("compression")
PHASES = {phase.name: phase for phase in SUITE.phases}
PUBLISHED = published.experiment("acid-batch-2013")


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return Dataset(777, 1)


# -- records and packers ----------------------------------------------------------------------------------


def test_records_depend_on_seed_but_not_count(dataset: Dataset) -> None:
    assert Dataset(20, 1).records == dataset.records[:20]
    assert Dataset(20, 2).records != dataset.records[:20]
    assert dataset.keys == sorted(set(dataset.keys)) and {len(key) for key in dataset.keys} == {KEY_BYTES}


def test_records_have_the_published_size(dataset: Dataset) -> None:
    # The published table says "777 1.51kb records".
    assert sum(map(len, dataset.encoded)) / 777 == pytest.approx(1510, rel=0.03)


@pytest.mark.claim("Records of the suite compression compress as the published ones")
@pytest.mark.parametrize("packer", ["zlib", "snappy", "lz4"])
@pytest.mark.parametrize("seed", [1, 7])
def test_records_compress_like_the_published_ones(packer: str, seed: int) -> None:
    dataset, compress = Dataset(777, seed), open_packer(packer).compress
    for line in PUBLISHED.lines:
        if line.params["packer"] == packer:
            size = int(line.params["batch"])
            parts = [slice(at, at + size) for at in range(0, 777, size)]
            stored = sum(KEY_BYTES + len(compress(body(dataset.keys[p], dataset.encoded[p], size))) for p in parts)
            assert dataset.plain_bytes / stored == pytest.approx(float(line.figures["ratio"]), rel=0.05), size


@pytest.mark.parametrize(
    "name", [*PACKER_SPECS, *(f"{name}:{level}" for name, k in PACKER_SPECS.items() for level in k.levels[:1])]
)
def test_a_packer_decompresses_what_it_compressed(name: str, dataset: Dataset) -> None:
    packer, texts = open_packer(name), [b"", b"\0", dataset.encoded[0], b"".join(dataset.encoded[:64])]
    for text in texts:
        assert packer.decompress(packer.compress(text)) == text
        assert type(packer.compress(text)) is type(packer.decompress(packer.compress(text))) is bytes
    assert (len(packer.compress(texts[-1])) < len(texts[-1])) == (packer.library is not None)


def test_higher_levels_compress_better(dataset: Dataset) -> None:
    text = b"".join(dataset.encoded[:64])
    for name, kind in PACKER_SPECS.items():
        if kind.levels:
            least, most = (len(open_packer(f"{name}:{level}").compress(text)) for level in (1, kind.levels[-1]))
            assert most < least, name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("xz", "packer=xz: is not known; there are: brotli, lz4, plain, snappy, zlib, zstd"),
        ("snapy", "packer=snapy: is not known; did you mean snappy?"),
        ("snappy:3", "packer=snappy:3: snappy has no levels"),
        ("zlib:10", "packer=zlib:10: expected zlib, or zlib:LEVEL from 1 to 9"),
        ("zstd:", "packer=zstd:: expected zstd, or zstd:LEVEL from 1 to 22"),
    ],
)
def test_unknown_packer_or_level_is_refused(given: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan_of(packer=[given])
    assert str(refused.value).endswith(message)


def test_missing_packer_is_left_out_with_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lz4", None)
    for request in (RunRequest("compression"), plan_file.parse(PUBLISHED.plan_at_preset("quick"), "")):
        made = plan.make(request)
        assert made.left_out == ("packer lz4 needs lz4: dyno install compression",)
        assert {"plain", "zlib", "snappy"} <= {cell.params["packer"] for cell in made.cells}
        assert "lz4" not in {cell.params["packer"] for cell in made.cells}
    with pytest.raises(UsageError, match="packer lz4 needs lz4: dyno install compression"):
        plan_of(packer=["lz4"])
    shown = CliRunner().invoke(dyno_command, ["run", "compression", "--dry-run"])
    assert shown.exit_code == 0 and "left out: packer lz4 needs lz4" in shown.output


@pytest.mark.usefixtures("processes")
def test_planning_imports_no_packer_library() -> None:
    import subprocess

    libraries = sorted({kind.module for kind in PACKER_SPECS.values()} - set(sys.stdlib_module_names))
    program = (
        "import sys; from dyno.runner import plan; from dyno.options import RunRequest;"
        "plan.make(RunRequest('compression', preset='standard'));"
        f"print([name for name in {libraries} if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.stdout.strip() == "[]", ended.stderr


# -- the plan ---------------------------------------------------------------------------------------------


def plan_of(**params: Sequence[Any]) -> plan.Plan:
    return plan.make(RunRequest("compression", params=params))


def test_standard_has_every_packer_and_published_batch_size() -> None:
    cells = plan.make(RunRequest("compression", preset="standard")).cells
    sizes = {line.params["batch"] for line in PUBLISHED.lines}
    assert sizes == {1, 2, 4, 5, 8, 16, 32, 64}
    quick = plan.make(plan_file.parse(PUBLISHED.plan_at_preset("quick"), "")).cells
    assert {cell.params["batch"] for cell in quick} == sizes
    for floor in (False, True):
        found = [(cell.params["packer"], cell.params["batch"]) for cell in cells if cell.floor == floor]
        assert found == [(packer, size) for packer in PACKER_SPECS for size in sorted(sizes)]


def test_requested_values_override_the_preset() -> None:
    cells = plan.make(RunRequest("compression", preset="standard", params={"packer": ["zlib:9"]})).cells
    assert {cell.params["packer"] for cell in cells} == {"zlib:9"}
    assert len({cell.params["batch"] for cell in cells}) == 8


def test_lmdb_is_the_only_default_engine() -> None:
    assert {cell.engine for cell in plan_of().cells} == {"lmdb", "nullkv"}
    named = plan.make(RunRequest("compression", engines=["memory"])).cells
    assert {cell.engine for cell in named} == {"memory", "nullkv"}


def test_the_layout_is_declared_beside_the_plan() -> None:
    whole = plan_of()
    assert "layout" not in whole.data()
    assert json.loads(json.dumps(whole.declared))["layout"]["columns"][0]["name"] == "packer"


# -- a trial ----------------------------------------------------------------------------------------------


class Store:
    """An engine over a dict, whose entries a test can damage."""

    entries: dict[bytes, bytes]

    def __init__(self, home: Path, tier: Tier, options: Any) -> None:
        self.entries = {}

    def close(self) -> None:
        pass

    def settings(self) -> Mapping[str, Any]:
        return {}


class Keys(KVReader):
    def __init__(self, engine: Store) -> None:
        self.entries = engine.entries

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([(found, self.entries[found]) for found in sorted(self.entries) if found >= key])

    def put(self, key: bytes, value: bytes) -> None:
        self.entries[key] = value

    def __enter__(self) -> Keys:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def reading(self) -> Keys:
        return self

    writing = reading

    def close(self) -> None:
        pass


def spec(floor: bool = False) -> EngineSpec:
    opener: Any = Store
    tiers: Mapping[Tier, Mapping[str, Any]] = {Tier.PROCESS: {}}
    return EngineSpec("fake", "a fake", opener, {"ordered-kv": PortSpec(Keys)}, tiers, Tier.PROCESS, floor=floor)


def trial(home: Path, engine: EngineSpec | None = None, **params: Any) -> CompressionWorkload:
    whole = {"packer": "zlib", "batch": 8, "records": 60, "gets": 300, "iterations": 2, **params}
    return CompressionWorkload(Job(engine or spec(), home, Tier.PROCESS, {}, whole, seed=1, clients=1))


def done(workload: CompressionWorkload, phase: str, client: int = 0, clients: int = 1, round: int = 0) -> list[Any]:
    """Runs and checks a client's share; returns the arguments."""
    requests: list[Any] = []
    with workload.connect() as port:
        held = HeldTransaction()
        for work in workload.work(PHASES[phase], port, client, clients, round):
            assert isinstance(work, Operations)
            kept = held.enter(work.held)
            with work.around() as yielded:
                (call,) = work.calls(yielded if work.held is None else kept)
                answers = [call(argument) for argument in work.arguments]
            work.check(answers)
            requests += work.arguments
        held.leave()
    return requests


def loaded(home: Path, **params: Any) -> CompressionWorkload:
    workload = trial(home, **params)
    workload.prepare(PHASES["insert"])
    done(workload, "insert")
    return workload


def test_every_phase_passes_at_any_batch_size(tmp_path: Path) -> None:
    for batch in (1, 7, 60, 100):
        workload = loaded(tmp_path / str(batch), batch=batch)
        assert workload.verify(PHASES["insert"]) == 60
        for phase in ("gets", "iterate"):
            workload.prepare(PHASES[phase])
            assert done(workload, phase)
        assert workload.facts(PHASES["gets"])["entries"] == -(-60 // batch)


@pytest.mark.claim("All packers and batches get the same requests")
def test_cells_get_same_requests_but_rounds_differ(tmp_path: Path) -> None:
    first = done(loaded(tmp_path / "a", batch=1, packer="plain"), "gets")
    second = loaded(tmp_path / "b", batch=16, packer="zlib")
    assert done(second, "gets") == first
    assert done(second, "gets", round=1) != first
    assert len(first) == 300 and len(set(first)) > 40


def test_clients_divide_batches_lookups_and_iterations(tmp_path: Path) -> None:
    workload = trial(tmp_path)
    workload.prepare(PHASES["insert"])
    parts = [done(workload, "insert", client, 3) for client in range(3)]
    keys = [key for part in parts for batch in part for key, _ in batch]
    assert sorted(keys) == [key_of(number) for number in range(60)]
    assert workload.verify(PHASES["insert"]) == 60
    for phase, whole in (("gets", 300), ("iterate", 2)):
        assert sum(len(done(workload, phase, client, 3)) for client in range(3)) == whole


def test_batches_missing_after_insert_are_loaded(tmp_path: Path) -> None:
    workload = trial(tmp_path)
    workload.prepare(PHASES["insert"])
    with workload.connect() as port:
        (work,) = workload.work(PHASES["insert"], port, 0, 1, 0)
        assert isinstance(work, Operations)
        with work.around() as store:
            stored = [store(argument) for argument in work.arguments[:3]]
        # The budget ended the phase after three batches, of which one raised.
        work.check([*stored[:2], Failure("full")])
    del workload.engine().entries[work.arguments[2][-1][0]]  # type: ignore[attr-defined]
    assert workload.verify(PHASES["insert"]) == 16
    assert workload.facts(PHASES["insert"]) == {}, "of a store that is not whole"
    workload.prepare(PHASES["gets"])
    assert done(workload, "iterate") and workload.facts(PHASES["gets"])["entries"] == 8


def change(workload: CompressionWorkload, number: int) -> None:
    """Replaces one record in the stored batch."""
    store: Any = workload.engine()
    key, value = sorted(store.entries.items())[number]
    text = open_packer("zlib").decompress(value)
    store.entries[key] = open_packer("zlib").compress(text.replace(b"</p>", b"<_p>", 1))


@pytest.mark.parametrize("phase", ["gets", "iterate"])
def test_wrong_record_in_batch_voids_the_phase(phase: str, tmp_path: Path) -> None:
    workload = loaded(tmp_path)
    done(workload, phase)
    change(workload, 3)
    with pytest.raises(Wrong, match=r"got .*, expected "):
        done(workload, phase)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda entries: entries.pop(min(entries)),
        lambda entries: entries.update({b"\xff" * KEY_BYTES: entries[max(entries)]}),
        lambda entries: entries.update({min(entries): entries[sorted(entries)[1]]}),
        lambda entries: entries.update({bytes(KEY_BYTES): entries.pop(min(entries))}),
    ],
    ids=["missing", "surplus", "mistaken", "misplaced"],
)
def test_verification_finds_a_spoiled_store(spoil: Any, tmp_path: Path) -> None:
    workload = loaded(tmp_path)
    assert workload.verify(PHASES["insert"]) == 60
    store: Any = workload.engine()
    spoil(store.entries)
    with pytest.raises(Wrong, match="after insert"):
        workload.verify(PHASES["insert"])


def test_null_engine_is_unchecked_and_has_no_facts(tmp_path: Path) -> None:
    workload = trial(tmp_path, spec(floor=True))
    workload.prepare(PHASES["gets"])
    store: Any = workload.engine()
    store.entries.clear()
    assert done(workload, "gets") and done(workload, "iterate")
    assert workload.facts(PHASES["gets"]) == {}


def test_facts_describe_the_store(tmp_path: Path) -> None:
    workload = loaded(tmp_path, batch=8)
    store: Any = workload.engine()
    facts = workload.facts(PHASES["insert"])
    stored = sum(len(key) + len(value) for key, value in store.entries.items())
    assert (facts["stored_bytes"], facts["entries"]) == (stored, 8)
    assert facts["ratio"] == Dataset(60, 1).plain_bytes / stored
    assert float(facts["compress_cpu_ns_per_mb"] or 0) > float(facts["decompress_cpu_ns_per_mb"] or 0) > 0
    assert str(facts["library"]).startswith("zlib ")
    assert workload.payload_bytes(PHASES["insert"], 60) == Dataset(60, 1).plain_bytes - 60 * KEY_BYTES
    plain = loaded(tmp_path / "plain", batch=1, packer="plain").facts(PHASES["insert"])
    assert plain["ratio"] == 1 and plain["library"] is plain["compress_cpu_ns_per_mb"] is None


def test_an_engine_that_compresses_itself_has_a_caveat(tmp_path: Path) -> None:
    codes = {}
    for name, options in (("leveldb", {}), ("leveldb", {"compression": "none"}), ("lmdb", {})):
        engine = registry.engine(name)
        if engine.find_missing_modules():
            pytest.skip(engine.remedy)
        home = tmp_path / f"{name}{len(options)}"
        home.mkdir()
        job = Job(
            engine, home, Tier.PROCESS, engine.resolve(options), {"packer": "plain", "batch": 1, "records": 1}, 1, 1
        )
        with closing(CompressionWorkload(job)) as workload:
            workload.prepare(PHASES["insert"])
            codes[home.name] = [caveat.code for caveat in workload.caveats()]
    assert codes == {"leveldb0": ["compresses-again"], "leveldb1": [], "lmdb0": []}
