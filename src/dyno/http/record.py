"""What a request tells, by curl's names: hop by hop, and of all hops together. Times in seconds, sizes in bytes.

What is not known, or was not done, is None: no zero stands for it, and no -1. Across redirects a moment is the sum of
the hops' moments, as curl has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from dyno.http.encoding import text
from dyno.http.options import CONNECT_SECONDS, Options
from dyno.http.stages import COARSE, MICRO, STAGES, Moments, fine, stages
from dyno.text.passwords import mask_password

MOMENTS = ("namelookup", "connect", "appconnect", "pretransfer", "posttransfer", "starttransfer")


@dataclass(frozen=True)
class Hop:
    """One request and its response, or what it failed of."""

    url: str
    method: str
    at: Moments
    secure: bool
    fresh: bool
    told: Mapping[str, Any]
    error: str | None = None
    exitcode: int = 0

    @property
    def stages_us(self) -> dict[str, int | None]:
        return stages(self.at, self.secure, self.fresh, self.exitcode != 0)

    def record(self) -> dict[str, Any]:
        return {
            "url": mask_password(self.url),
            "method": self.method,
            "http_code": self.told["http_code"],
            "http_version": self.told["http_version"],
            "primary_ip": self.told["primary_ip"],
            "primary_port": self.told["primary_port"],
            "reused": not self.fresh,
            "total_time": self.at.total / MICRO,
            "stages": _seconds(self.stages_us),
        }


def _effective(c: ModuleType, get: Callable[[int], Any]) -> str | None:
    """The URL; None if libcurl has none, which is so for a request that it did not begin."""
    try:
        url = text(get(c.EFFECTIVE_URL))
    except c.error:
        url = None
    return mask_password(url) if url else None


def told(c: ModuleType, made: Any, versions: Mapping[int, str]) -> dict[str, Any]:
    """What a handle tells of its last request, beside the times."""
    get: Callable[[int], Any] = made.getinfo
    get_bytes: Callable[[int], Any] = made.getinfo_raw
    code = get(c.HTTP_CODE)
    return {
        "content_length_download": _known(get(c.CONTENT_LENGTH_DOWNLOAD_T)),
        "content_length_upload": _known(get(c.CONTENT_LENGTH_UPLOAD_T)),
        "content_type": text(get_bytes(c.CONTENT_TYPE)),
        "effective_url": _effective(c, get_bytes),
        "header_size": get(c.HEADER_SIZE),
        "http_code": code or None,
        "http_connectcode": get(c.HTTP_CONNECTCODE) or None,
        "http_version": versions.get(get(c.INFO_HTTP_VERSION)),
        "httpauth_avail": get(c.HTTPAUTH_AVAIL),
        "local_ip": get(c.LOCAL_IP) or None,
        "local_port": _known(get(c.LOCAL_PORT)) or None,
        "num_connects": get(c.NUM_CONNECTS),
        "os_errno": get(c.OS_ERRNO) or None,
        "primary_ip": get(c.PRIMARY_IP) or None,
        "primary_port": _known(get(c.PRIMARY_PORT)) or None,
        "proxyauth_avail": get(c.PROXYAUTH_AVAIL),
        "redirect_url": text(get_bytes(c.REDIRECT_URL)),
        "request_size": get(c.REQUEST_SIZE),
        "size_download": get(c.SIZE_DOWNLOAD_T),
        "size_upload": get(c.SIZE_UPLOAD_T),
        "ssl_engines": get(c.SSL_ENGINES),
        "ssl_verifyresult": get(c.SSL_VERIFYRESULT),
        # Since libcurl 8.7. By a proxy, the first stages are those to the proxy.
        "used_proxy": bool(get(c.USED_PROXY)) if hasattr(c, "USED_PROXY") else None,
    }


def whole(hops: Sequence[Hop], options: Options) -> dict[str, Any]:
    """The record of a request: the last hop's, with the times of all."""
    last = hops[-1]
    total = sum(hop.at.total for hop in hops) / MICRO
    before = sum(hop.at.total for hop in hops[:-1]) / MICRO
    found: dict[str, Any] = {
        **last.told,
        "method": last.method,
        "scheme": "https" if last.secure else "http",
        "compressed": options.compressed,
        "connect_timeout": options.connect_timeout or CONNECT_SECONDS,
        "max_time": options.max_time,
        "error": last.error,
        "exitcode": last.exitcode,
        "header_size": sum(hop.told["header_size"] for hop in hops),
        "num_connects": sum(hop.told["num_connects"] for hop in hops),
        "request_size": sum(hop.told["request_size"] for hop in hops),
        "redirect_count": len(hops) - 1,
        "redirect_time": before if len(hops) > 1 else None,
        "redirect_url": last.told["redirect_url"] and mask_password(last.told["redirect_url"]),
        "ssl_verifyresult": last.told["ssl_verifyresult"] if last.secure else None,
        **{f"{name}_time": _moment(hops, name) for name in MOMENTS},
        "total_time": total,
        "speed_download": _speed(last.told["size_download"], total),
        "speed_upload": _speed(last.told["size_upload"], total),
        "stages": _seconds(_sums(hops)),
        "hops": [hop.record() for hop in hops],
        "doubts": _doubts(hops),
    }
    return dict(sorted(found.items()))


def _moment(hops: Sequence[Hop], name: str) -> float | None:
    """None where nothing of the kind was done in any hop."""
    of = [hop for hop in hops if hop.fresh or name not in ("namelookup", "connect", "appconnect")]
    found = [getattr(hop.at, name) for hop in of if hop.secure or name != "appconnect"]
    # What was not reached is 0.
    return sum(moment or 0 for moment in found) / MICRO if any(found) else None


def _sums(hops: Sequence[Hop]) -> dict[str, int | None]:
    parts = [hop.stages_us for hop in hops]
    known = {name: [us for part in parts if (us := part[name]) is not None] for name in STAGES}
    return {name: sum(values) if values else None for name, values in known.items()}


def _doubts(hops: Sequence[Hop]) -> list[str]:
    found = []
    if short := fine([hop.stages_us for hop in hops]):
        found.append(f"{COARSE}: {', '.join(short)}")
    return found


def _seconds(us: Mapping[str, int | None]) -> dict[str, float | None]:
    return {name: None if value is None else value / MICRO for name, value in us.items()}


def _known(length: int) -> int | None:
    return None if length < 0 else length


def _speed(size: int, seconds: float) -> float | None:
    return size / seconds if seconds else None
