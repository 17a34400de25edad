"""Apache Spark through PySpark: a DataFrame cached by a local Java process or by the user's cluster."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.contracts.engine import Listing, Server, ServerSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.compute.library import THREADS, FunctionPort, Library, declare, library
from dyno.servers import user_server
from dyno.servers.user_server import URL, UserServer, unreachable_error
from dyno.suites.compute.port import Arrays, Operation, columns, sums_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

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

    def kill(self) -> None:
        if self.pid is not None:
            # Imported here: listing engines should work without psutil.
            import psutil

            from dyno.servers import leftover_processes

            with suppress(psutil.NoSuchProcess):
                leftover_processes.kill(leftover_processes.family(self.pid))
            self.pid = None

    stop = close = kill

    def pids(self) -> Iterable[int]:
        if self.pid is None:
            return ()
        return (self.pid,)


def compute(engine: Library) -> FunctionPort:
    """Returns a port on a session, whose executors cache the DataFrame."""
    server: Any = engine.server
    local = isinstance(server, JavaProcess)
    if local:
        master = f"local[{engine.threads or len(os.sched_getaffinity(0))}]"
    else:
        master = server.url
    session = _session(master, engine, server)
    if local:
        server.pid = session.sparkContext._gateway.proc.pid
    from pyspark.sql import functions as f

    cached: DataFrame | None = None

    def load(arrays: Arrays) -> DataFrame:
        import pyarrow as pa

        nonlocal cached
        if cached is not None:
            cached.unpersist(blocking=True)
        cached = session.createDataFrame(pa.table(columns(arrays))).cache()
        # Caching is lazy, and counting loads all rows.
        cached.count()
        return cached

    def aggregate(function: Column) -> Operation:
        return lambda frame: frame.agg(function).collect()[0][0]

    return FunctionPort(
        {
            "avg": aggregate(f.avg("x")),
            "max": aggregate(f.max("x")),
            "sin": lambda frame: frame.select(f.sin("x").alias("x")).toArrow()["x"],
            "sum": aggregate(f.sum("x")),
            "sum2d": lambda frame: list(frame.agg(*(f.sum(name) for name in sums_of(frame.columns))).collect()[0]),
            "corr": aggregate(f.corr("x", "y")),
        },
        load,
        int(session.sparkContext.defaultParallelism),
        session.stop,
    )


def _session(master: str, engine: Library, server: Any) -> SparkSession:
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
    }
    if server.own:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.master(master).appName("dyno")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (OSError, PySparkException) as error:
        raise unreachable_error(server, error) from None


def serve(home: Path, tier: Tier | None, options: Mapping[str, Value], clients: int) -> Server | None:
    if options[URL]:
        return UserServer(str(options[URL]))
    return JavaProcess()


def needs(options: Mapping[str, Value]) -> str | None:
    if shutil.which("java") or os.environ.get("JAVA_HOME"):
        return None
    return "needs Java 17 or later: dyno install spark"


ENGINE = declare(
    "spark",
    "Apache Spark, a cached DataFrame (PySpark)",
    library("Spark", "pyspark", "pyarrow"),
    compute,
    installation=Installation(
        modules=("pyspark", "pyarrow"),
        requires=("pyspark==4.3.0", "pyarrow>=15"),
        python=PYTHON,
        packages=("default-jre-headless",),
        needs=needs,
    ),
    server=ServerSpec(serve),
    # Java takes as long to start as a trial of most other engines.
    listing=Listing(by_default=False),
    options=(THREADS, MEMORY, user_server.setting("spark")),
)
