"""Run notebooks from the first cell to the last, and collect all problems."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbconvert.filters import strip_ansi
from nbformat import NotebookNode

from apviz.widgets.live_widget import STATIC

WIDGET = "application/vnd.jupyter.widget-view+json"
TRACEBACK = "Traceback (most recent call last)"
# errors of threads and tasks do not reach a cell that has returned: keep them, and raise them in an extra last cell
_LISTEN = """
def listen():
    import asyncio, sys, threading, traceback
    heard = sys.modules["late_errors"] = type(sys)("late_errors")
    heard.texts = []
    def hear(error, say):
        heard.texts.append("".join(traceback.format_exception(error)))
        say()
    aloud = threading.excepthook
    threading.excepthook = lambda of: hear(of.exc_value, lambda: aloud(of))
    def in_a_task(loop, of):
        hear(of.get("exception") or RuntimeError(of["message"]), lambda: loop.default_exception_handler(of))
    asyncio.get_event_loop().set_exception_handler(in_a_task)
listen()
del listen
"""
_TELL = """
import asyncio, gc, late_errors
await asyncio.sleep(0.5)
gc.collect()
if late_errors.texts:
    raise RuntimeError("raised after its cell had returned: " + "\\n".join(late_errors.texts))
"""


@dataclass(frozen=True)
class Ran:
    """An executed notebook with its outputs.

    Attributes:
        seconds: time since the start of its kernel.
        problems: one sentence per problem; empty if there is none.
    """

    path: Path
    notebook: NotebookNode
    seconds: float
    problems: tuple[str, ...]


async def run(paths: Sequence[Path], *, timeout: float, at_once: int) -> AsyncIterator[Ran]:
    """Run notebooks in parallel, each in its own Python process and its own folder; yield each when it is done.

    The processes share the cores: oversubscribed threads make solves many times slower.

    Args:
        timeout: time limit for a whole notebook, in seconds.
        at_once: number of notebooks that run in parallel.
    """
    free = asyncio.Semaphore(at_once)
    # KeOps prints the name of the machine when it is imported
    share = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // at_once)), "KEOPS_VERBOSE": "0"}

    async def one(path: Path) -> Ran:
        async with free:
            return await _run(path, timeout, share | os.environ)

    for done in asyncio.as_completed([asyncio.create_task(one(path)) for path in paths]):
        yield await done


async def _run(path: Path, timeout: float, environment: dict[str, str]) -> Ran:
    notebook = nbformat.read(path, 4)
    notebook.cells.append(nbformat.v4.new_code_cell(_TELL))
    place = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(
        notebook, timeout=None, kernel_name="python3", resources=place, store_widget_state=False,
        extra_arguments=["--log-level=ERROR"],
    )  # fmt: skip

    async def listen(notebook: NotebookNode) -> None:
        await client.kc.execute_interactive(_LISTEN, silent=True)

    client.on_notebook_start = listen
    stopped = ()
    start = monotonic()
    try:
        await asyncio.wait_for(client.async_execute(env=environment), timeout)
    except CellExecutionError as error:
        stopped = (strip_ansi(str(error)),)
    except (TimeoutError, DeadKernelError):
        late = monotonic() - start >= timeout  # the timeout also ends its Python
        stopped = (f"it did not end within {timeout:g} seconds" if late else "its Python died, perhaps out of memory",)
    said = notebook.cells.pop().outputs
    problems = stopped or (*problems_of(notebook), *_complaints("after the last cell", said))
    return Ran(path, notebook, monotonic() - start, problems)


def problems_of(notebook: NotebookNode) -> list[str]:
    """Return the problems in the outputs of a notebook in which no cell raised.

    A thread or a callback can raise after its cell returned (nbmake#77), a solution can be wrong, and a widget can lack
    its static output.
    """
    found: list[str] = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        where = f"cell {number} ({cell.source.partition(chr(10))[0][:60]!r})"
        tags = cell.metadata.get("tags", [])
        if cell.execution_count is None and cell.source.strip():
            found.append(f"{where} did not run")
        if "raises-exception" not in tags:
            found += _complaints(where, cell.outputs)
        if "solution" in tags and not _is_right(cell.outputs):
            found.append(f"{where} is a solution, but its check does not say that it is right")
        for output, after in zip(cell.outputs, [*cell.outputs[1:], {}], strict=False):
            if WIDGET in output.get("data", {}) and STATIC not in after.get("metadata", {}):
                found.append(f"{where} shows a widget without a static output: make it a LiveWidget")
    return found


def _complaints(where: str, outputs: Sequence[NotebookNode]) -> list[str]:
    found = [f"{where} raised {each.ename}: {each.evalue}" for each in outputs if each.output_type == "error"]
    # a thread may print in several outputs
    printed = "".join(each.text for each in outputs if each.output_type == "stream")
    return [*found, f"{where} printed a traceback:\n{printed}"] if TRACEBACK in printed else found


def _is_right(outputs: Sequence[NotebookNode]) -> bool:
    said = [str(each.data.get("text/markdown", "")) for each in outputs if "data" in each]
    return any("✓" in each for each in said) and not any("✗" in each for each in said)
