"""Processes of tests: each is forked from one that has imported apviz, because an import takes seconds."""

from __future__ import annotations

import multiprocessing

FRESH = multiprocessing.get_context("forkserver")
PRELOADED = ["apviz", "apviz.comparison", "pytest"]
FRESH.set_forkserver_preload(PRELOADED)
