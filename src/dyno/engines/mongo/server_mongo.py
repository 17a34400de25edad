"""What is the same for all servers with MongoDB's protocol: how pymongo connects to one, and what is really there.

What a server is started with stands in its own file; what is stored, in the suites.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dyno.contracts.model import Value
from dyno.servers import namespace, user_server
from dyno.servers.user_server import URL
from dyno.text.passwords import mask_password

UNAUTHORIZED = 13
PATIENCE_MS = 5_000
"""How long the client looks for a server that answers. Its default is 30 s."""


def socket_address(path: object) -> str:
    """The address of a server that listens on this Unix socket, and of no other member of its replica set."""
    return f"mongodb://{quote(str(path), safe='')}/?directConnection=true"


def connect(server: Any, **settings: Any) -> Any:
    """A client of the server, which has answered. Raises Refused where it does not.

    Nothing is tried again behind the caller's back: an operation that fails is counted as one that failed.
    """
    from pymongo import MongoClient
    from pymongo.errors import PyMongoError

    address, client = (server.address if server.own else server.url), None
    try:
        with warnings.catch_warnings():
            # pymongo only warns of an option that it does not know: `tsl=true` would be a connection without TLS.
            warnings.filterwarnings("error", "Unknown option", UserWarning)
            client = MongoClient(
                address, retryWrites=False, retryReads=False, serverSelectionTimeoutMS=PATIENCE_MS, **settings
            )
        client.admin.command("ping")
        if not server.own:
            for name in namespace.abandoned(client.list_database_names()):
                client.drop_database(name)
    except (PyMongoError, UserWarning) as error:
        if client is not None:
            client.close()
        raise user_server.unreachable(server, said(error)) from None
    return client


def encrypted(client: Any) -> bool | None:
    """Returns whether its connections use TLS; None if pymongo does not tell."""
    pool = client.options.pool_options
    return pool._ssl_context is not None if hasattr(pool, "_ssl_context") else None


def said(error: Exception) -> str:
    """What pymongo says of an error, in one line and without its description of the topology."""
    return mask_password(
        " ".join(str(error).split()).partition(" (configured timeouts")[0].partition(", Timeout:")[0]
    )


def version(client: Any) -> str:
    """The server that is really there, and the client."""
    import pymongo

    told = client.server_info()
    ferretdb = told.get("ferretdbVersion")
    name = f"FerretDB {ferretdb.lstrip('v')}" if ferretdb else f"MongoDB {told['version']}"
    return f"{name} (pymongo {pymongo.version})"


def bson_code() -> str:
    """Whether the client turns documents into bytes by its extension in C, or by Python."""
    import bson

    return "C" if bson.has_c() else "Python"


def missing_right(error: Exception) -> str | None:
    """See `dyno.contracts.engine.EngineSpec.missing_right`."""
    return said(error) if getattr(error, "code", None) == UNAUTHORIZED else None


def removal(name: str, options: Mapping[str, Value]) -> str:
    """See `dyno.contracts.engine.EngineSpec.removal`."""
    return shlex.join(["mongosh", str(options[URL]), "--eval", f"db.getSiblingDB('{name}').dropDatabase()"])


def remove(home: Path, server: Any) -> None:
    """Takes the database of the store in `home` off the server."""
    client = connect(server)
    client.drop_database(namespace.of(home))
    client.close()
