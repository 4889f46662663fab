"""Limits on the resources that one visitor may use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from apviz.factors import factor_bytes
from apviz.partitions import overlap_of
from apviz.settings import require_number, require_whole
from apviz.solvers import AlternatingProjection, Solver


@dataclass(frozen=True)
class Limits:
    """Limits of one server. A request beyond a limit is refused, with the limit in the message.

    Args:
        max_solves: Most simultaneous solves over all visitors; further solves queue.
        max_n: Most training rows of a system.
        max_block_gb: Most memory for the block factors of one solve, in GB.
        max_upload_mb: Largest size of an uploaded file, in MB.
        tab_seconds: Time that a page is kept after its tab was closed, in seconds. A tab that does not respond for
            eight times as long, as on a sleeping machine, counts as closed.
        job_seconds: Time that a visitor's jobs keep running after the last tab was closed, in seconds. A visitor who
            returns within this time finds them.

    Raises:
        ValueError: A limit is out of range.
    """

    max_solves: int = 2
    max_n: int = 50_000
    max_block_gb: float = 4.0
    max_upload_mb: int = 100
    tab_seconds: int = 15
    job_seconds: int = 600

    def __post_init__(self) -> None:
        require_whole("max_solves", self.max_solves, 1)
        require_whole("max_n", self.max_n, 10)
        require_number("max_block_gb", self.max_block_gb, 0.0, "a positive number, such as 4", strictly=True)
        for name in ("max_upload_mb", "tab_seconds", "job_seconds"):
            require_whole(name, getattr(self, name), 1)

    def why_too_large(self, solver: Solver, x: Tensor) -> str:
        """Return why the block factors of a solver on inputs x: (n, d) are refused; empty if they are allowed.

        If apviz chooses the block size, it fits the blocks to the free memory.
        """
        needed = _known_factor_bytes(solver, x)
        if needed <= self.max_block_gb * 1e9:
            return ""
        return (
            f"{solver.method.name}: the block factors take {needed / 1e9:.1f} GB, this server allows "
            f"{self.max_block_gb:g} GB a solve; take smaller blocks or less overlap: memory grows as n·b·(1 + overlap)²"
        )

    def why_too_large_together(self, solvers: Sequence[Solver], x: Tensor) -> str:
        """Return why the block factors of several solvers are refused together; empty if they are allowed."""
        needed = sum(_known_factor_bytes(solver, x) for solver in solvers)
        if needed <= self.max_block_gb * 1e9:
            return ""
        return (
            f"a race holds the factors of all methods at once, {needed / 1e9:.1f} GB, and this server allows "
            f"{self.max_block_gb:g} GB: run them one by one, or fewer of them"
        )


def _known_factor_bytes(solver: Solver, x: Tensor) -> float:
    """Return the bytes of a solver's block factors on x: (n, d); 0 if apviz chooses the block size."""
    if not isinstance(solver, AlternatingProjection):
        return 0.0
    size, overlap = solver.block_size, overlap_of(solver.partition)
    return 0.0 if "auto" in (size, overlap) else float(factor_bytes(x, int(size), float(overlap)))
