"""Commands by which a suite is run without its name, such as `dyno time`: see `dyno.contracts.roles.ShortForm`."""

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from dyno import registry
from dyno.cli import files
from dyno.cli.console import output
from dyno.cli.flag_values import NAME, output_option, work_option
from dyno.cli.run import OVERWRITE, RESUME, carry_out, run_flags, status
from dyno.cli.suite_flags import make_option, read_values
from dyno.contracts.model import UsageError
from dyno.contracts.roles import ShortFormSuite
from dyno.options import RunRequest
from dyno.report.formats import FORMATS
from dyno.report.tables import text
from dyno.runner import plan


def make_command(name: str) -> click.Command:
    """Returns the command of this name, which a suite declares."""
    suites = (each for each in registry.suites() if isinstance(each, ShortFormSuite))
    suite = next(each for each in suites if each.short_form.command == name)
    form = suite.short_form

    @click.command(name=name, help=form.help)
    @click.argument("arguments", nargs=-1, required=True, metavar=form.argument)
    @click.option("--export-json", "exported", type=NAME, metavar="FILE", help="Write hyperfine's JSON.")
    @run_flags(*form.options)
    @output_option("Run file to write. Default: none is kept.", "RUN")
    @RESUME
    @OVERWRITE
    @work_option()
    def command(
        arguments: tuple[str, ...],
        exported: str | None,
        path: str | None,
        root: Path | None,
        resume: bool,
        overwrite: bool,
        **values: object,
    ) -> int:
        if resume and path is None:
            raise UsageError("--resume needs -o RUN, the file to continue")
        if exported is not None:
            files.check(exported)
        short = suite.expand_short_form(arguments, read_values(form.flags, values))
        request = RunRequest(suite.name, short.engines, params=short.params, phases=short.phases, **short.options)
        run_plan = plan.make(request)
        with TemporaryDirectory(prefix=f"dyno-{name}-") as home:
            file = path or str(Path(home, f"{name}.json"))
            run = carry_out(
                run_plan,
                file,
                root,
                resume,
                overwrite,
                show=lambda run: text.render(run, output(), whole=True),
                kept=path is not None,
            )
            text.render(run, output(), whole=True)
            if exported is not None:
                files.save(exported, FORMATS["hyperfine"](run).encode())
        return status(run)

    # The command's argument is listed first, then the suite's flags.
    command.params[1:1] = [make_option(flag, flag.name) for flag in form.flags]
    return command


time_command = make_command("time")
