"""The bar of a job shows every message word for word."""

from __future__ import annotations

import html

import pytest

pytest.importorskip("panel")

from apviz.dashboard.jobs.job import Job, JobQueue
from apviz.dashboard.jobs.job_bar import JobBar

STRANGE = "column <img src=x onerror=hacked()> of a_b*c*"


class Strange(Job):
    """Job that puts the name of a column into its message and its failures."""

    def work(self) -> None:
        self.message, self.failures = STRANGE, [f"first {STRANGE}", STRANGE]


@pytest.fixture
def bar():
    return JobBar(lambda: None, lambda: None)


def read(alert):
    """Return the text of a message as the browser shows it."""
    assert "<" not in alert.object and "a_b" not in alert.object and "*c" not in alert.object.replace("\\*c", "")
    return html.unescape(alert.object).replace("\\", "")


def test_a_job_and_its_failures_are_shown_word_for_word_on_a_line_each(bar):
    job = Strange(JobQueue(1))
    job.start()
    job.join(10)
    bar.show(job)
    assert read(bar._text).split("  \n") == [f"Done: {STRANGE}", f"first {STRANGE}", STRANGE]


def test_a_refusal_and_the_problems_of_fields_are_shown_word_for_word(bar):
    bar.refuse(STRANGE)
    bar.show_problems([STRANGE, "too small"])
    assert read(bar._text) == STRANGE
    assert read(bar._held) == f"C{STRANGE[1:]}.  \nToo small."
