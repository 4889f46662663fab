"""Examples in docstrings give what they say."""

from __future__ import annotations

import doctest
import time

import numpy as np
import pytest

import apviz
import apviz.rkhs

EXAMPLES = [
    example
    for name in apviz.rkhs.__all__
    for example in doctest.DocTestFinder().find(
        getattr(apviz.rkhs, name), f"apviz.rkhs.{name}", globs={"apviz": apviz, "np": np}
    )
    if example.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_gives_what_it_says_at_once(example):
    start = time.process_time()
    found = doctest.DocTestRunner(verbose=False).run(example)
    assert found.attempted and not found.failed
    assert time.process_time() - start < 0.3
