"""Arrays: how fast are arrays larger than memory written and reduced, cold and hot, and how large are they on disk?

Based on Douglas Camata, Wendelin: core version 0.5 upgrade and performance tests, 2015.
"""

from functools import partial

from dyno.contracts.declarations import defer_import
from dyno.contracts.model import Phase, Preset
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.suite import Proof, Suite
from dyno.suites.arrays.port import NUMERIC

PUBLISHED_ROWS = 1_430_394

_count, _STATS = integer(1, 100_000), "read-column-stats"
_HOT = ("read-sum-hot", "read-sum-pandas-hot")

_SUMS = ("read-sum-cold", "read-sum-pandas-cold", *_HOT)

PARAMS = (
    Setting("rows", integer(1, 2**32), PUBLISHED_ROWS, "rows of the table, 175 bytes each"),
    Setting("column", choice(*NUMERIC), "quantity", "column to sum up", phases=_SUMS),
    Setting(
        "repeats", _count, 5, "sums of a hot phase, and of read-column-stats", phases=(*_HOT, "read-column-stats")
    ),
    Setting("slices", integer(1, 1_000_000), 200, "slices to read", phases=("read-slice",)),
    Setting("slice_rows", integer(1, 65_536), 1_000, "rows of a slice", phases=("read-slice", "update-slice")),
    Setting("appends", _count, 1, "transactions in which append adds its rows", phases=("append",)),
    Setting("updates", integer(1, 1_000_000), 50, "slices to update, a transaction each", phases=("update-slice",)),
)

PRESETS = {
    "quick": Preset({"rows": 50_000, "slices": 50, "updates": 10}, samples=3, budget=5, timeout=120),
    "standard": Preset({"rows": PUBLISHED_ROWS}, samples=5, budget=120, timeout=1_800),
    # 30 GiB, which is one and a half times the memory of a trial that is confined to 20 GiB.
    "full": Preset({"rows": 184_000_000, "repeats": 2}, samples=3, budget=3_600, timeout=36_000),
}

APPENDED = 100
"""Number of rows in the table for each row that the phase `append` adds."""
_SUM = "the sum: exactly for whole numbers, to a relative 1e-12 for floats"
_STORE, _SAMPLE = "the sums of all numeric columns, and every value of up to 200,000 rows", "and the last slices"

_COLD = "{figure} summed up from the device"
_EXACT, _NEAR = "every value of every column", "each mean to a relative 1e-12, each deviation to 1e-9"
_sum = partial(Phase, unit="sum", writes=False, checked=_SUM, metric="bandwidth")
_read = partial(Phase, writes=False, temperature="hot", metric="bandwidth")
_write = partial(Phase, writes=True, checked=_STORE, metric="bandwidth")

PHASES = (
    _write("write", "write all rows, in one transaction", unit="row", says="{figure} written"),
    _sum("read-sum-cold", "sum a column up once, from the device", temperature="cold", says=_COLD),
    _sum("read-sum-hot", "sum a column up", temperature="hot", says="{figure} summed up from memory"),
    _sum("read-sum-pandas-cold", "sum a column up through a DataFrame, once, from the device", temperature="cold"),
    _sum("read-sum-pandas-hot", "sum a column up through a DataFrame", temperature="hot"),
    _read("read-slice", "read all columns of consecutive rows, at random positions", unit="slice", checked=_EXACT),
    _read(_STATS, "mean and standard deviation of three columns", unit="op", checked=_NEAR),
    _write("append", "add 1 % more rows at the end, in transactions", unit="row"),
    _write("update-slice", "replace two columns of consecutive rows", unit="slice", checked=f"{_STORE}, {_SAMPLE}"),
)


class ArraysSuite(Suite):
    name = "arrays"
    title = "a table of numbers and short texts, out of core: written, reduced and sliced, cold and hot"
    ports = ("arrays",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    # Two phases prove the tier, since engines append rows in another way than they update them.
    proof = Proof(
        "append",
        count="appends",
        params={"rows": 20_000, "slice_rows": 10},
        history=defer_import("dyno.suites.arrays.workload:ArraysHistory"),
        also=Proof("update-slice", count="updates"),
    )


SUITE = ArraysSuite()
