import logging

import pytest


@pytest.fixture(autouse=True)
def quiet():
    """Undo what a command does to logging."""
    level = logging.getLogger("apviz").level
    yield
    logging.captureWarnings(False)
    logging.getLogger("apviz").setLevel(level)
