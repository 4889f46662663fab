"""What one visitor may ask of the machine."""

from __future__ import annotations

from dataclasses import dataclass

from apviz.settings import require_number, require_whole


@dataclass(frozen=True)
class Limits:
    """What is refused, with the limit in the message.

    Args:
        max_solves: solves at once over all visitors; the others queue.
        max_n: training rows of a system.
        max_block_gb: memory of the block factors of one solve, in GB.
        max_upload_mb: size of an uploaded file, in MB.

    Raises:
        ValueError: a limit out of range.
    """

    max_solves: int = 2
    max_n: int = 50_000
    max_block_gb: float = 4.0
    max_upload_mb: int = 100

    def __post_init__(self) -> None:
        require_whole("max_solves", self.max_solves, 1)
        require_whole("max_n", self.max_n, 10)
        require_number("max_block_gb", self.max_block_gb, 0.0, "a positive number, such as 4", strictly=True)
        require_whole("max_upload_mb", self.max_upload_mb, 1)
