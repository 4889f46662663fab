"""Notebooks run from the first cell to the last, and everything that went wrong on the way."""

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
# what threads and tasks raise reaches no cell that has returned: it is kept, and told by a cell after the last
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
    """A notebook with its outputs.

    Attributes:
        seconds: from the start of its kernel.
        problems: one sentence each; none where all is well.
    """

    path: Path
    notebook: NotebookNode
    seconds: float
    problems: tuple[str, ...]


async def run(paths: Sequence[Path], *, timeout: float, at_once: int) -> AsyncIterator[Ran]:
    """Runs notebooks, some at once, each in a Python of its own and in its own folder; the first done comes first.

    They share the cores, for threads that wait for each other's core make solves many times slower.

    Args:
        timeout: seconds for a whole notebook.
    """
    free = asyncio.Semaphore(at_once)
    # KeOps prints which machine it is on as it is imported
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
        late = monotonic() - start >= timeout  # then its Python was ended
        stopped = (
            f"it did not end within {timeout:g} seconds" if late else "its Python died; was there too little memory?",
        )
    said = notebook.cells.pop().outputs
    problems = stopped or (*problems_of(notebook), *_complaints("after the last cell", said))
    return Ran(path, notebook, monotonic() - start, problems)


def problems_of(notebook: NotebookNode) -> list[str]:
    """What is wrong with the outputs of a notebook in which no cell raised.

    An error can come after its cell returned, from a thread or a callback (nbmake#77); a solution can be wrong; a
    widget can lack what stands in place of it.
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
            found.append(f"{where} is a solution, and its check does not say that it is right")
        for output, after in zip(cell.outputs, [*cell.outputs[1:], {}], strict=False):
            if WIDGET in output.get("data", {}) and STATIC not in after.get("metadata", {}):
                found.append(f"{where} shows a widget without what stands in its place: make it a LiveWidget")
    return found


def _complaints(where: str, outputs: Sequence[NotebookNode]) -> list[str]:
    found = [f"{where} raised {each.ename}: {each.evalue}" for each in outputs if each.output_type == "error"]
    # a thread writes in pieces
    printed = "".join(each.text for each in outputs if each.output_type == "stream")
    return [*found, f"{where} printed a traceback:\n{printed}"] if TRACEBACK in printed else found


def _is_right(outputs: Sequence[NotebookNode]) -> bool:
    said = [str(each.data.get("text/markdown", "")) for each in outputs if "data" in each]
    return any("✓" in each for each in said) and not any("✗" in each for each in said)
