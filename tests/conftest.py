"""Small solves on one thread: two would wait for each other longer than they compute, most of all on a busy machine."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # also for the processes that tests start; before torch is imported
