"""What a login of PostgreSQL may change, and the functions that may change something."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dyno.suites.sql.language.splitter import quote_name
from dyno.suites.sql.port import READER, Rights

if TYPE_CHECKING:
    import psycopg

HARMLESS = (
    *("random", "random_normal", "clock_timestamp", "timeofday", "gen_random_uuid", "uuid_generate_v1"),
    *("uuid_generate_v1mc", "uuid_generate_v4", "gen_random_bytes", "gen_salt", "normal_rand", "currval", "lastval"),
    *("pg_sleep", "pg_sleep_for", "pg_sleep_until", "pg_relation_size", "pg_total_relation_size", "pg_table_size"),
    *("pg_indexes_size", "pg_database_size", "pg_tablespace_size", "pg_column_size", "pg_relation_filepath"),
    *("pg_is_in_recovery", "pg_current_wal_lsn", "pg_current_wal_insert_lsn", "pg_last_wal_receive_lsn"),
    *("pg_last_wal_replay_lsn", "pg_stat_statements", "pg_stat_statements_info", "pg_lock_status"),
    *("pg_prepared_statement", "pg_prepared_xact", "pg_cursor", "pg_show_all_settings", "pg_timezone_names"),
)
"""Volatile functions that change nothing."""
WORD = re.compile(r"[^\W\d][\w$]*")
FIRST_OF_USERS = 16_384
"""The first number of an object that is not the server's own."""
VOLATILE = """
SELECT DISTINCT proname FROM pg_catalog.pg_proc p
WHERE provolatile = 'v' AND prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
AND proname = ANY(%s) AND proname <> ALL(%s)
AND (p.oid < %s OR EXISTS (SELECT FROM pg_catalog.pg_depend d
    WHERE d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'))
ORDER BY proname
"""
ROLES = (
    *("pg_write_all_data", "pg_write_server_files", "pg_execute_server_program", "pg_signal_backend"),
    *("pg_maintain", "pg_create_subscription", "pg_checkpoint", "pg_database_owner"),
)
MAY = """
SELECT CASE
WHEN rolsuper THEN 'it is a superuser'
WHEN rolcreaterole OR rolcreatedb OR rolreplication THEN 'it has CREATEROLE, CREATEDB or REPLICATION'
WHEN has_database_privilege(current_database(), 'CREATE') THEN 'CREATE on the database'
ELSE coalesce(
(SELECT 'it is a member of ' || min(m.rolname) FROM pg_catalog.pg_roles m
    WHERE m.rolname = ANY(%s) AND pg_has_role(m.oid, 'MEMBER')),
(SELECT 'CREATE on schema ' || min(nspname) FROM pg_catalog.pg_namespace WHERE has_schema_privilege(oid, 'CREATE')),
(SELECT 'INSERT, UPDATE, DELETE or TRUNCATE on table ' || min(relname) FROM pg_catalog.pg_class
    WHERE relkind IN ('r', 'p', 'v', 'f', 'm') AND relnamespace NOT IN (
        SELECT oid FROM pg_catalog.pg_namespace WHERE nspname IN ('pg_catalog', 'information_schema'))
    AND (has_table_privilege(oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
        OR has_any_column_privilege(oid, 'INSERT, UPDATE'))),
(SELECT 'USAGE or UPDATE on sequence ' || min(relname) FROM pg_catalog.pg_class
    WHERE relkind = 'S' AND CASE relkind WHEN 'S' THEN has_sequence_privilege(oid, 'USAGE, UPDATE') END),
'') END, (SELECT has_schema_privilege('public', n.oid, 'CREATE') FROM pg_catalog.pg_namespace n
    WHERE nspname = 'public')
FROM pg_catalog.pg_roles WHERE rolname = current_user
"""


def find_volatile(connection: psycopg.Connection, text: str) -> Sequence[str]:
    """Returns the functions of the server and of its extensions whose names are in the text, and which may change
    something. Functions of the user's work within the transaction."""
    words = sorted({word.lower() for word in WORD.findall(text)})
    rows = connection.execute(VOLATILE, (words, list(HARMLESS), FIRST_OF_USERS)).fetchall()
    return [name for (name,) in rows]


def read_rights(connection: psycopg.Connection) -> Rights:
    ((may, public),) = connection.execute(MAY, (list(ROLES),)).fetchall()
    ((schema,),) = connection.execute("SELECT coalesce(current_schema(), 'public')").fetchall()
    name = quote_name(schema)
    remedy = [
        f"CREATE ROLE {READER} LOGIN",
        f"GRANT USAGE ON SCHEMA {name} TO {READER}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO {READER}",
    ]
    if public:
        remedy.append("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    return Rights(may, remedy)
