"""Apache Spark through PySpark: a DataFrame cached by the executors of a local Java process or of the user's
cluster."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Server
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.compute.library import THREADS, Library, LibraryPort, declare, library
from dyno.servers import user_server
from dyno.servers.user_server import URL, UserServer, unreachable
from dyno.suites.compute.port import Arrays, columns, sums_of

PYTHON = "{}.{}".format(*sys.version_info)
"""Version of this Python. PySpark gets a separate environment, because it includes Spark: half a gigabyte, which
should not be downloaded when Dyno is installed with all its extras."""
MEMORY = Setting("memory_mib", integer(512), 2048, "heap of the Java process, in MiB (spark.driver.memory)")


class JavaProcess:
    """The Java process of a local Spark, as a `dyno.contracts.engine.Server`. PySpark starts it when the port is
    opened, because its start is part of what is measured."""

    own = True

    def __init__(self) -> None:
        self.pid: int | None = None

    def start(self) -> None:
        return None

    def stop(self) -> None:
        self.kill()

    def kill(self) -> None:
        if self.pid is not None:
            # Imported here: listing engines should work without psutil.
            import psutil

            from dyno.servers import leftover_processes

            with suppress(psutil.NoSuchProcess):
                leftover_processes.kill(leftover_processes.family(self.pid))
            self.pid = None

    def close(self) -> None:
        self.kill()

    def pids(self) -> Iterable[int]:
        return () if self.pid is None else (self.pid,)


class Compute(LibraryPort):
    def __init__(self, engine: Library) -> None:
        server: Any = engine.server
        local = isinstance(server, JavaProcess)
        master = f"local[{engine.threads or len(os.sched_getaffinity(0))}]" if local else server.url
        self._session = _session(master, engine, server)
        if local:
            server.pid = self._session.sparkContext._gateway.proc.pid
        from pyspark.sql import functions as f

        self._cached: Any = None
        self.operations = {
            "avg": self._aggregate(f.avg("x")),
            "max": self._aggregate(f.max("x")),
            "sin": lambda frame: frame.select(f.sin("x").alias("x")).toArrow()["x"],
            "sum": self._aggregate(f.sum("x")),
            "sum2d": lambda frame: list(frame.agg(*(f.sum(name) for name in sums_of(frame.columns))).collect()[0]),
            "corr": self._aggregate(f.corr("x", "y")),
        }

    def _aggregate(self, function: Any) -> Callable[[Any], Any]:
        return lambda frame: frame.agg(function).collect()[0][0]

    def load(self, arrays: Arrays) -> Any:
        import pyarrow as pa

        if self._cached is not None:
            self._cached.unpersist(blocking=True)
        self._cached = self._session.createDataFrame(pa.table(columns(arrays))).cache()
        # Caching is lazy, and counting loads all rows.
        self._cached.count()
        return self._cached

    def threads(self) -> int | None:
        return int(self._session.sparkContext.defaultParallelism)

    def close(self) -> None:
        self._session.stop()


def _session(master: str, engine: Library, server: Any) -> Any:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    directory = engine.home / "spark"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{engine.options['memory_mib']}m",
        # Set no limit: `sin` collects as many numbers as were loaded.
        "spark.driver.maxResultSize": "0",
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
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
    return UserServer(str(options[URL])) if options[URL] else JavaProcess()


def needs(options: Mapping[str, Value]) -> str | None:
    if shutil.which("java") or os.environ.get("JAVA_HOME"):
        return None
    return "needs Java 17 or later: dyno install spark"


ENGINE = declare(
    "spark",
    "Apache Spark, a cached DataFrame (PySpark)",
    library("Spark", "pyspark", "pyarrow"),
    Compute,
    modules=("pyspark", "pyarrow"),
    requires=("pyspark==4.3.0", "pyarrow>=15"),
    python=PYTHON,
    packages=("default-jre-headless",),
    needs=needs,
    server=serve,
    # Java takes as long to start as a trial of most other engines.
    by_default=False,
    options=(THREADS, MEMORY, user_server.setting("spark")),
)
