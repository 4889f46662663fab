"""Ranks of tests: processes that connect like those of torchrun."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from tests.ports import free_port
from tests.processes import FRESH


def _be_rank(rank: int, size: int, port: int, out: Path, work: Callable[..., Any], given: Sequence[Any]) -> None:
    os.environ |= {
        "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    torch.set_num_threads(1)
    import apviz.distributed

    apviz.distributed.init()
    (out / f"{rank}.pickle").write_bytes(pickle.dumps(work(*given)))
    apviz.distributed.finish()


def on_ranks(size: int, folder: Path, work: Callable[..., Any], *given: Any, patience: float = 240.0) -> list[Any]:
    """Run `work` on `size` ranks of one thread each, and return what each returned."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    started = [FRESH.Process(target=_be_rank, args=(rank, size, port, folder, work, given)) for rank in range(size)]
    for each in started:
        each.start()
    for each in started:
        each.join(patience)
    assert [each.exitcode for each in started] == [0] * size
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(size)]
