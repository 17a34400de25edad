"""The file of a bundle: a zip archive with a manifest, whose bytes follow from its members alone.

The archive's comment ends with the SHA-256 of all bytes before it, so every changed byte is noticed. Whoever changes
a bundle on purpose can hash it again: a checksum proves that a file is whole, and not that its figures are true.
"""

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from dyno import __version__
from dyno.contracts.model import UsageError
from dyno.contracts.safe_read import MIB, open_regular_file
from dyno.contracts.value_types import MOST
from dyno.results.read import convert_to_type, damaged_file_error

ENDING = ".dyno"
"""The end of a bundle's name."""
MANIFEST = "manifest.json"
Role = Literal["run", "plan", "data"]
RUN: Role = "run"
PLAN: Role = "plan"
DATA: Role = "data"
SCHEMA = 1
MARK = b"dyno bundle sha256:"
HASH = 64
MOST_BYTES = 512 * MIB
MOST_UNPACKED = 1024 * MIB
MOST_MEMBERS = 64
MOST_MANIFEST = MIB
MOST_DATA = 50_000_000
"""Larger data files are named by their hash, and left out."""
NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,99}/)?[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every member: dates of files would make two bundles of one run different."""


@dataclass(frozen=True, order=True)
class Listed:
    """A member in the manifest."""

    name: Annotated[str, Meta(max_length=201)]
    role: Role
    bytes: Annotated[int, Meta(ge=0, le=MOST)]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


@dataclass(frozen=True)
class Manifest:
    """The manifest. `left_out`: data files that are too large for the bundle, which a copy can be compared with."""

    kind: Literal["bundle"]
    schema: Annotated[int, Meta(ge=1)]
    dyno: Annotated[str, Meta(max_length=40)]
    members: Annotated[list[Listed], Meta(max_length=MOST_MEMBERS)]
    left_out: Annotated[list[Listed], Meta(max_length=MOST_MEMBERS)]


def pack_members(members: Mapping[str, tuple[Role, bytes]], left_out: list[Listed]) -> bytes:
    """Returns the archive of these members: by name, their roles and contents."""
    listed = [Listed(name, role, len(content), digest(content)) for name, (role, content) in sorted(members.items())]
    manifest = {
        "kind": "bundle",
        "schema": SCHEMA,
        "dyno": __version__,
        "members": [asdict(each) for each in listed],
        "left_out": [asdict(each) for each in sorted(left_out)],
    }
    contents = {MANIFEST: json.dumps(manifest, indent=1).encode()}
    contents |= {name: content for name, (_, content) in sorted(members.items())}
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in contents.items():
            member = zipfile.ZipInfo(name, EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3
            member.external_attr = 0o644 << 16
            archive.writestr(member, content, compresslevel=9)
        archive.comment = MARK + b"0" * HASH
    return append_checksum(buffer.getvalue())


def append_checksum(archive: bytes) -> bytes:
    """Returns an archive with the checksum of its bytes at its end."""
    body = archive[:-HASH]
    return body + digest(body).encode()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read(path: Path) -> tuple[Manifest, dict[str, bytes]]:
    """Returns the manifest and the contents of all other members by name. Raises UsageError for a file that is no
    bundle, is damaged, or has anything that a bundle doesn't have."""
    with open_regular_file(path, MOST_BYTES) as file:
        return parse_bundle(file.read(MOST_BYTES), path)


def parse_bundle(content: bytes, path: Path) -> tuple[Manifest, dict[str, bytes]]:
    """Verifies the content of the file at `path`: see `read`."""
    body, checksum = content[:-HASH], content[-HASH:]
    if not body.endswith(MARK):
        raise UsageError(f"{path} is not a bundle of dyno, or its end is missing")
    if digest(body).encode() != checksum:
        raise damaged_file_error(path, "its bytes don't have the checksum at its end")
    try:
        contents = _contents(content)
        manifest = convert_to_type(json.loads(contents.pop(MANIFEST, b"null")), Manifest)
    except (ValueError, RecursionError) as error:
        raise damaged_file_error(path, error) from None
    if manifest.schema > SCHEMA:
        raise UsageError(f"{path} has schema {manifest.schema}; this Dyno reads up to {SCHEMA}: update it")
    listed = {each.name: each for each in manifest.members}
    if len(listed) < len(manifest.members) or listed.keys() != contents.keys():
        raise damaged_file_error(path, "its manifest lists other members than it has")
    for name, each in listed.items():
        if (len(contents[name]), digest(contents[name])) != (each.bytes, each.sha256):
            raise damaged_file_error(path, f"{name} is not the member that the manifest lists")
    return manifest, contents


def _contents(content: bytes) -> dict[str, bytes]:
    """Raises ValueError for an archive with unusual members."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            members = archive.infolist()
            _check(members)
            return {member.filename: _member(archive, member) for member in members}
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError) as error:
        raise ValueError(f"not a readable archive: {error}") from None


def _check(members: list[zipfile.ZipInfo]) -> None:
    names = [member.filename for member in members]
    if len(members) > MOST_MEMBERS:
        raise ValueError(f"it has {len(members)} members, of {MOST_MEMBERS} at most")
    if len({name.lower() for name in names}) < len(names):
        raise ValueError("two members have the same name")
    for member in members:
        if not NAME.fullmatch(member.filename) or member.orig_filename != member.filename:
            raise ValueError(f"the name of a member is not accepted: {member.filename!r:.80}")
        if member.filename == MANIFEST and member.file_size > MOST_MANIFEST:
            raise ValueError(f"its manifest has more than {MOST_MANIFEST // MIB} MiB")
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{member.filename} is encrypted, or compressed in an unknown way")
    whole = sum(member.file_size for member in members)
    if whole > MOST_UNPACKED:
        raise ValueError(f"unpacked it has {whole / MIB:,.0f} MiB, of {MOST_UNPACKED // MIB:,} at most")


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with archive.open(member) as file:
        # It may unpack to more than it declares.
        content = file.read(member.file_size + 1)
    if len(content) != member.file_size:
        raise ValueError(f"{member.filename} does not have the declared size")
    return content
