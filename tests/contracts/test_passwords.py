"""Tests that secrets of addresses are masked, however they are written, and that the rest of an address is shown."""

from __future__ import annotations

from time import process_time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyno.contracts.passwords import HIDDEN, LEAST, mask_argument, mask_password, mask_secrets, secrets

SHOWN = (
    ("postgresql://u:p%40w@h:5432/db", "postgresql://u:***@h:5432/db"),
    ("redis://:pw@h/0", "redis://:***@h/0"),
    ("unix://:pw@/run/redis.sock?db=0", "unix://:***@/run/redis.sock?db=0"),
    ("postgresql://u%3Apw@h/db", "postgresql://u%3A***@h/db"),
    ("postgresql://us/er:pw@h/db", "postgresql://us/er:***@h/db"),
    ("postgresql://u:p:w@h", "postgresql://u:***@h"),
    ("postgresql://u:p@w@h", "postgresql://u:***@h"),
    ("postgresql://u:p w@h", "postgresql://u:***@h"),
    ("postgresql://u:a/b?c@h/db", "postgresql://u:***"),
    ("postgresql://u:secret", "postgresql://u:***"),
    ("mongodb://h1:27017,h2:word/db", "mongodb://h1:27017,h2:***"),
    # These addresses have no secrets.
    ("postgresql://h:5432/db", "postgresql://h:5432/db"),
    ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
    ("mongodb://u@h1:1,h2:2/db?replicaSet=rs&w=1", "mongodb://u@h1:1,h2:2/db?replicaSet=rs&w=1"),
    ("postgresql:///db?host=/run&SSLmode=require", "postgresql:///db?host=/run&SSLmode=require"),
    # Values of query parameters are masked unless their names are known to be harmless.
    ("postgresql://h/db?sslmode=require&sslpassword=x&passfile=/p", "postgresql://h/db?sslmode=require&sslpassword=***&passfile=***"),
    ("mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:x,A:b&tls=true", "mongodb://h/?authMechanismProperties=***&tls=true"),
    ("mongodb://h/?tlsCertificateKeyFilePassword=x", "mongodb://h/?tlsCertificateKeyFilePassword=***"),
    ("redis://h/0?pass%77ord=x&db=1", "redis://h/0?pass%77ord=***&db=1"),
    ("mongodb://h/?tls=true;password=x", "mongodb://h/?tls=true;password=***"),
    ("redis://h/0?password=x;tls=true", "redis://h/0?password=***"),
    ("redis://h/0?word", "redis://h/0?***"),
    ("redis://h:6379/0?password=x@y", "redis://h:***"),
    ("redis://h/0?db=1#word", "redis://h/0?db=1#***"),
    # Both readings of an address are masked.
    ("https://me%3Ak!vp?wz/y@h#1,d", "https://me%3A***"),
    ("postgresql://u:7$ecret", "postgresql://u:***"),
    ("https://h/?foo=a#b;c@d", "https://h/?foo=***"),
    ("host=h password=a&b user=me", "host=h password=*** user=me"),
    # These addresses have no scheme.
    ("host=h password='a b' user=u", "host=h password=*** user=u"),
    ("host=h PASSWORD = x port=1", "host=h PASSWORD = *** port=1"),
    # One argument may have several addresses.
    ("a:url=x://u:p@h,b:url=y://v:q@i?db=1", "a:url=x://u:***@h,b:url=y://v:***@i?db=1"),
)  # fmt: skip


@pytest.mark.parametrize(("address", "shown"), SHOWN)
def test_secrets_of_an_address_are_masked(address: str, shown: str) -> None:
    assert mask_argument(address) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("can't connect to mysql://u:p@h:3306: refused", "can't connect to mysql://u:***@h:3306: refused"),
        ("can't connect to mysql://h:3306: refused", "can't connect to mysql://h:3306: refused"),
        ("'redis://h/?password=x' is wrong", "'redis://h/?password=***' is wrong"),
        ("see https://example.org/page#install.", "see https://example.org/page#install."),
        ("expected one that begins with postgresql:// or postgres://", None),
        ("the query ?sslmode=a&sslpassword=x&b of it", "the query ?sslmode=a&sslpassword=***&b of it"),
        ("AWS_SESSION_TOKEN:x is no token", "AWS_SESSION_TOKEN:*** is no token"),
        ("wrong password: access denied; token = is missing", "wrong password: access denied; token = *** missing"),
    ],
)
def test_addresses_and_passwords_in_a_text_are_masked(text: str, shown: str | None) -> None:
    assert mask_password(text) == (text if shown is None else shown)


# Passwords are long enough to be searched for, and not part of every address.
PASSWORDS = st.text(min_size=8, max_size=20).filter(lambda text: len(set(text)) > LEAST)


@pytest.mark.claim("A secret in an address is in no run file, report or error")
@given(PASSWORDS)
def test_password_is_masked_in_encoded_and_decoded_form(password: str) -> None:
    encoded = quote(password, safe="")
    address = f"postgresql://user:{encoded}@host/name?sslpassword={encoded}&sslmode=require"
    assert mask_argument(address) == "postgresql://user:***@host/name?sslpassword=***&sslmode=require"
    for written in (password, encoded):
        assert mask_secrets(f"[{written}]", secrets(address)) == f"[{HIDDEN}]"


def test_short_secret_is_masked_only_as_whole_word() -> None:
    hidden = secrets("postgresql://postgres:postgres@h/?sslpassword=Tr1cky%2Fw0rd")
    assert mask_secrets("postgresql as postgres, Tr1cky/w0rd", hidden) == "postgresql as ***, ***"


def test_addresses_are_masked_only_with_known_secrets() -> None:
    hidden = secrets("postgresql://me:p%40w@h")
    assert mask_secrets("can't connect to postgresql://me:p%4", hidden) == "can't connect to postgresql://me:***"
    assert mask_secrets("no secret: postgresql://me:x@h", ()) == "no secret: postgresql://me:x@h"


@pytest.mark.parametrize("value", ["true", "no", "on", "1", "", "ab"])
def test_common_values_are_masked_and_not_searched_for(value: str) -> None:
    address = f"redis://h/?unknown={value}"
    assert mask_argument(address) == f"redis://h/?unknown={HIDDEN if value else ''}"
    assert secrets(address) == ()


def test_an_address_may_be_of_any_length() -> None:
    address = f"redis://{'u:' * 5_000}@{'h' * 50_000}?{'a=b&' * 5_000}{'@' * 5_000}"
    assert len(mask_argument(address)) < 10_000


@pytest.mark.parametrize("word", ["x", "a.b-", "password", "a://@:", "a://h?x=1&"])
def test_searching_a_long_word_takes_linear_time(word: str) -> None:
    begun = process_time()
    secrets(word * 30_000)
    mask_password(word * 30_000)
    assert process_time() - begun < 4
