"""The command line.

`dashboard` imports little, so that it listens at once; the imports of the other commands take seconds, and wait until
one of them is asked for.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.logging import RichHandler
from typer.core import TyperGroup

from apviz.cli.terminal import console, errors, fail, leave
from apviz.dashboard.entrance import Entrance, check_access


class Commands(TyperGroup):
    """All commands."""

    def main(self, *args: Any, **more: Any) -> Any:
        """Run a command; a full disk below the output, and a warning that -W error raises, end it in a sentence."""
        try:
            try:
                return super().main(*args, **more)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            leave("")
        except OSError as error:
            leave(f"what the command says cannot be written: {error.strerror or error}")
        except Warning as warning:
            leave(f"a warning, which -W error makes an error: {warning}")

    # typer brings a click of its own, whose types are private
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Command of a name; None where there is none."""
        if cmd_name not in self.commands:
            self._import_others()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands."""
        self._import_others()
        return super().list_commands(ctx)

    def _import_others(self) -> None:
        from apviz.cli import solving

        others: Any = typer.main.get_command(solving.app)
        self.commands = {**others.commands, **self.commands}


app = typer.Typer(
    cls=Commands, no_args_is_help=True, add_completion=False,
    help="The command line of apviz: solve large Gaussian-process systems by alternating projection, record every "
    "update, and look at it.",
)  # fmt: skip


@app.callback()
def main() -> None:
    """Solve large Gaussian-process systems by alternating projection, record every update, and look at it."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[RichHandler(console=errors)])
    logging.getLogger("apviz").setLevel(logging.INFO)
    logging.captureWarnings(True)


@app.command()
def dashboard(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where to listen.")] = 5006,
    runs: Annotated[Path, typer.Option(help="Folder of traces: shown, and where new ones go.")] = Path("runs"),
    dataset: Annotated[str | None, typer.Option(help="The data set to begin with.")] = None,
    lecture: Annotated[bool, typer.Option(help="Larger type and lines, for a projector.")] = False,
    max_solves: Annotated[int, typer.Option(help="Solves at once over all visitors; the others queue.")] = 2,
    max_n: Annotated[int, typer.Option(help="Training rows of a system.")] = 50_000,
    max_block_gb: Annotated[float, typer.Option(help="Memory of the block factors of a solve, in GB.")] = 4.0,
    max_upload: Annotated[int, typer.Option(help="Size of an uploaded file, in MB.")] = 100,
    tab_seconds: Annotated[int, typer.Option(help="Seconds that a page is kept after its tab was closed.")] = 15,
    job_seconds: Annotated[int, typer.Option(help="Seconds that jobs go on after their visitor's last tab.")] = 600,
    address: Annotated[str, typer.Option(help="Interface; others than this machine ask for one of the next two.")] = (
        "127.0.0.1"
    ),
    basic_auth: Annotated[str | None, typer.Option(help="A password, or a JSON file of users and passwords.")] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Let everybody in who can reach the address.")] = False,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A host that visitors may use, such as that of a proxy; repeatable."),
    ] = None,
    show: Annotated[bool, typer.Option(help="Open a browser.")] = True,
) -> None:
    """Compare solvers in the browser, live, on any data."""
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
