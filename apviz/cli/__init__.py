"""The command line.

`dashboard` imports little, so that it listens at once. The imports of other commands take seconds, and are delayed
until one of them is needed.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.logging import RichHandler
from typer.core import TyperGroup

from apviz import __version__
from apviz.cli.terminal import console, errors, fail, leave
from apviz.dashboard.entrance import Entrance, check_access


class Commands(TyperGroup):
    """Group of all commands."""

    def main(self, *args: Any, **more: Any) -> Any:
        """Run a command; a full disk, or a warning raised by -W error, ends it with one sentence."""
        try:
            try:
                return super().main(*args, **more)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            leave("")
        except OSError as error:
            leave(f"the output of the command cannot be written: {error.strerror or error}")
        except Warning as warning:
            leave(f"a warning, which -W error makes an error: {warning}")

    # typer includes a version of click, whose types are private
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name; None if there is none."""
        if cmd_name not in self.commands:
            self._import_others()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        self._import_others()
        return super().list_commands(ctx)

    def _import_others(self) -> None:
        from apviz.cli import advising, comparing, experimenting, fitting, predicting, showing
        from apviz.cli.data_sets import sets

        others = typer.Typer()
        others.add_typer(sets, name="datasets")
        others.command(epilog=comparing.EXAMPLES)(comparing.compare)
        others.command(epilog=advising.EXAMPLES)(advising.advise)
        others.command(epilog=fitting.EXAMPLES)(fitting.fit)
        others.command(epilog=predicting.EXAMPLES)(predicting.predict)
        others.command(epilog=experimenting.EXAMPLES)(experimenting.experiment)
        others.command(epilog=showing.REPORT_EXAMPLES)(showing.report)
        others.command(epilog=showing.SHOW_EXAMPLES)(showing.show)
        others.command(epilog=showing.DOCTOR_EXAMPLES)(showing.doctor)
        group: Any = typer.main.get_command(others)
        self.commands = {**group.commands, **self.commands}


app = typer.Typer(
    cls=Commands, no_args_is_help=True, add_completion=False,
    help="Solve large Gaussian-process systems, record every step, and look at it.",
    epilog="Examples:\n\napviz compare --dataset china --n 2000\n\napviz dashboard",
)  # fmt: skip


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"apviz {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Solve large Gaussian-process systems, record every step, and look at it."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[RichHandler(console=errors)])
    logging.getLogger("apviz").setLevel(logging.INFO)
    logging.captureWarnings(True)


# same groups as in the other commands, whose modules take seconds to import
DATA, RUN, OUTPUT, LIMITS, ACCESS = "Data", "Run", "Output", "Limits for visitors", "Access"


def _option(panel: str, metavar: str | None, help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **more)


@app.command(
    epilog="Examples:\n\napviz dashboard --dataset china\n\n"
    "apviz dashboard --address 0.0.0.0 --basic-auth users.json --max-n 5000"
)
def dashboard(
    dataset: Annotated[str | None, _option(DATA, "NAME", "Start with this data set.")] = None,
    port: Annotated[int, _option(RUN, "PORT", "Listen on this port.", min=1, max=65535)] = 5006,
    show: Annotated[bool, _option(RUN, None, "Open a browser.", "--show/--no-show")] = True,
    lecture: Annotated[bool, _option(RUN, None, "Use larger type and lines, for a projector.", "--lecture")] = False,
    runs: Annotated[Path, _option(OUTPUT, "FOLDER", "Show and write the traces of this folder.")] = Path("runs"),
    address: Annotated[
        str, _option(ACCESS, "ADDRESS", "Listen on this interface; others need --basic-auth or --no-auth.")
    ] = "127.0.0.1",
    basic_auth: Annotated[
        str | None,
        _option(ACCESS, "PASSWORD", "Ask for a password, or those of a JSON file of users.", envvar="APVIZ_PASSWORD"),
    ] = None,
    no_auth: Annotated[bool, _option(ACCESS, None, "Admit everyone who can reach the address.", "--no-auth")] = False,
    allow_origin: Annotated[
        list[str] | None, _option(ACCESS, "HOST", "Let visitors use this host, such as a proxy's. Repeatable.")
    ] = None,
    max_solves: Annotated[int, _option(LIMITS, "N", "Run N solves at once over all visitors; others queue.")] = 2,
    max_n: Annotated[int, _option(LIMITS, "N", "Limit the training rows of a system.")] = 50_000,
    max_block_gb: Annotated[float, _option(LIMITS, "GB", "Limit the memory of a solve's block factors.")] = 4.0,
    max_upload: Annotated[int, _option(LIMITS, "MB", "Limit the size of an uploaded file.")] = 100,
    tab_seconds: Annotated[int, _option(LIMITS, "SECONDS", "Keep a page this long after its tab closed.")] = 15,
    job_seconds: Annotated[int, _option(LIMITS, "SECONDS", "Run jobs this long after the visitor's last tab.")] = 600,
) -> None:
    """Compare solvers live in the browser, on your data."""
    try:
        check_access(address, basic_auth, no_auth)
        with Entrance(address, port) as entrance:
            console.print(f"dashboard on http://{address}:{port}, runs in {runs}; Ctrl-C ends it", highlight=False)
            try:
                from apviz.dashboard import Limits, serve
            except ImportError as error:
                fail(ImportError(f"the dashboard needs Panel ({error}): pip install 'apviz[dashboard]'"))
            serve(
                runs, port=port, address=address, dataset=dataset,
                limits=Limits(max_solves, max_n, max_block_gb, max_upload, tab_seconds, job_seconds), lecture=lecture,
                basic_auth=basic_auth, no_auth=no_auth, allow_origin=allow_origin or (), open_browser=show,
                entrance=entrance,
            )  # fmt: skip
    except (ValueError, OSError) as error:
        fail(error)
