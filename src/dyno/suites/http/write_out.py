"""Text of `--write-out`: curl's variables, filled in from a record."""

import re
from collections.abc import Mapping

from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown_name_message
from dyno.suites.http.client import MOMENTS

FIELDS = {
    "03": "http_code http_code=response_code http_connectcode=http_connect",
    ".0f": "exitcode local_port num_connects redirect_count=num_redirects primary_port=remote_port size_download "
    "header_size=size_header request_size=size_request size_upload speed_download speed_upload "
    "ssl_verifyresult=ssl_verify_result",
    ".6f": " ".join(f"{name}_time=time_{name}" for name in (*MOMENTS, "redirect", "total")),
    "": "content_type error=errormsg effective_url=url_effective http_version local_ip method primary_ip=remote_ip "
    "redirect_url scheme",
}
"""Fields of a record by their format, with curl's name after = if it is another one."""
VARIABLES = {each.split("=")[-1]: (each.split("=")[0], form) for form in FIELDS for each in FIELDS[form].split()}


def fill_template(text: str, record: Mapping[str, object]) -> str:
    """Returns the text with its variables replaced. Raises UsageError for an unknown variable."""

    def replace_variable(match: re.Match[str]) -> str:
        if match[1] is None:
            return {"n": "\n", "r": "\r", "t": "\t", "%": "%"}[match[0][1]]
        if match[0].startswith("%header"):
            raise UsageError(f"--write-out: {match[0]} is not supported; -D writes all headers")
        if match[1] not in VARIABLES:
            raise UsageError(f"--write-out: {unknown_name_message('variable', match[1], VARIABLES)}")
        name, form = VARIABLES[match[1]]
        return format(record.get(name) or (0 if form or name == "http_version" else ""), form)

    return re.sub(r"%(?:header)?\{([^}]*)\}|\\[nrt]|%%", replace_variable, text)
