"""What a provider charges for, phase by phase: requests by their class, and bytes that leave the store. Classes are
Amazon's, which others have too (Amazon Web Services, Amazon S3 pricing, "Requests & data retrievals"): a list costs
as much as what writes, and what deletes costs nothing. No price may be put here."""

from __future__ import annotations

from collections.abc import Mapping

from dyno.suites.objectstore import params as p

WRITING, READING, SENT, KEPT = "writing_requests", "reading_requests", "sent_bytes", "kept_bytes"


def billed(phase: str, served: int, size: int, parts: int, sent: int) -> Mapping[str, int]:
    """Of a phase of which so many operations were served. `size`: bytes of an object, `parts`: of an upload in parts,
    `sent`: bytes of an answer of a phase that reads."""
    writing, reading, out = {
        p.PUT: (1, 0, 0),
        p.COPY: (1, 0, 0),
        p.LIST: (1, 0, 0),
        # One to open, one to join.
        p.MULTIPART: (parts + 2, 0, 0),
        p.HEAD: (0, 1, 0),
        p.GET: (0, 1, sent),
        p.BURST: (0, 1, sent),
        p.COLD: (0, 1, sent),
        p.RANGE: (0, 1, sent),
        # Two writes and two lists; the last of three reads finds nothing.
        p.VISIBLE: (4, 3, 2 * size),
        p.DELETE: (0, 0, 0),
    }[phase]
    return {WRITING: writing * served, READING: reading * served, SENT: out * served}
