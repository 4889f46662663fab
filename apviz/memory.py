"""How much memory is free where the numbers are."""

from __future__ import annotations

import psutil
import torch


def free_memory(device: torch.device) -> int:
    """Bytes free on the GPU, or for the processor."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else int(psutil.virtual_memory().available)
