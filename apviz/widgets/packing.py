"""Numbers as text for pages, read by `js/packing.js`: base64 of bytes, or of float32."""

from __future__ import annotations

import base64

import numpy as np
from numpy.typing import ArrayLike


def packed_bytes(values: ArrayLike) -> str:
    """Return whole numbers from 0 to 255 as base64, row by row."""
    return base64.b64encode(np.asarray(values, dtype=np.uint8).tobytes()).decode()


def packed(values: ArrayLike) -> str:
    """Return numbers as base64 of float32 in little-endian order, row by row."""
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()
