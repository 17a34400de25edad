"""Apache Spark by PySpark: a DataFrame that its executors keep in memory, in a Java process beside this one, or on
the user's own cluster."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Server
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.compute.library import THREADS, Functions, Library, declare, of
from dyno.engines.compute.server_spark import Local
from dyno.servers import user_server
from dyno.servers.user_server import URL, UserServer, unreachable
from dyno.suites.compute.port import columns, sums_of

HERE = "{}.{}".format(*sys.version_info)
"""Its environment is one of its own, of this Python: it brings Spark itself, half a gigabyte that who installs Dyno
with all its extras should not have to fetch."""
MEMORY = Setting("memory_mib", integer(512), 2048, "heap of the Java process, in MiB (spark.driver.memory)")


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: Library) -> None:
        server = engine.server
        assert server is not None
        threads = int(str(engine.options["threads"])) or len(os.sched_getaffinity(0))
        master = f"local[{threads}]" if isinstance(server, Local) else str(getattr(server, "url", ""))
        self._session = _session(master, engine, server)
        if isinstance(server, Local):
            server.launched(self._session.sparkContext._gateway.proc.pid)
        from pyspark.sql import functions as f

        self._functions, self._held = f, None
        self._threads = int(self._session.sparkContext.defaultParallelism)
        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": self._one(f.avg("x")),
            "max": self._one(f.max("x")),
            "sin": lambda frame: frame.select(f.sin("x").alias("x")).toArrow()["x"],
            "sum": self._one(f.sum("x")),
            "sum2d": lambda frame: list(frame.agg(*(f.sum(name) for name in sums_of(frame.columns))).collect()[0]),
            "corr": self._one(f.corr("x", "y")),
        }

    def _one(self, wanted: Any) -> Callable[[Any], Any]:
        return lambda frame: frame.agg(wanted).collect()[0][0]

    def load(self, arrays: Mapping[str, Any]) -> Any:
        import pyarrow as pa

        if self._held is not None:
            self._held.unpersist(blocking=True)
        held = self._session.createDataFrame(pa.table(columns(arrays))).cache()
        # It is lazy: counted, all of it is there.
        held.count()
        self._held = held
        return held

    def threads(self) -> int | None:
        return self._threads

    def close(self) -> None:
        self._session.stop()


def _session(master: str, engine: Library, server: Any) -> Any:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    place = engine.home / "spark"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{engine.options['memory_mib']}m",
        # What is collected may be as large as what there is.
        "spark.driver.maxResultSize": "0",
        "spark.local.dir": str(place),
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if server.own else {}),
    }
    builder = SparkSession.builder.master(master).appName("dyno")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (OSError, PySparkException) as error:
        raise unreachable(server, error) from None


def serve(home: Path, tier: Tier | None, options: Mapping[str, Value], clients: int) -> Server | None:
    return UserServer(str(options[URL])) if options[URL] else Local()


def needs(options: Mapping[str, Value]) -> str | None:
    if shutil.which("java") or os.environ.get("JAVA_HOME"):
        return None
    return "needs Java 17 or later: dyno install spark"


ENGINE = declare(
    "spark",
    "Apache Spark, a cached DataFrame (PySpark)",
    of("Spark", "pyspark", "pyarrow"),
    Compute,
    modules=("pyspark", "pyarrow"),
    requires=("pyspark==4.3.0", "pyarrow>=15"),
    python=HERE,
    packages=("default-jre-headless",),
    needs=needs,
    server=serve,
    # A trial takes as long as Java's start.
    by_default=False,
    options=(THREADS, MEMORY, user_server.setting("spark")),
)
