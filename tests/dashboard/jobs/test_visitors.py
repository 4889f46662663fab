"""Visitors: which jobs belong to whom, and how long a job runs without a viewer."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("panel")

from apviz.dashboard.jobs.elsewhere import Elsewhere
from apviz.dashboard.jobs.job import Job, JobQueue
from apviz.dashboard.jobs.visitors import Visitor, Visitors

OURS, THEIRS = "a" * 32, "b" * 32


class Waits(Job):
    """Runs until it is stopped."""

    def work(self) -> None:
        self.message = "waiting"
        while not self.stopping:
            time.sleep(0.005)


def started(visitor: Visitor, page: str = "compare") -> Job:
    job = Waits(JobQueue(1))
    job.page = page
    visitor.start(job)
    wait_until(lambda: job.state == "running")
    return job


def wait_until(is_so) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_tab_that_comes_back_finds_the_jobs_it_left_and_nobody_else_does():
    visitors = Visitors(keep_seconds=60)
    ours = visitors.find(OURS)
    job = started(ours)
    ours.leave()
    assert visitors.find(THEIRS).jobs == []
    back = visitors.find(OURS)
    assert back.jobs == [job] and job.is_active
    job.stop()


def test_a_second_tab_has_the_jobs_of_the_first():
    visitors = Visitors(keep_seconds=60)
    job = started(visitors.find(OURS))
    assert visitors.find(OURS).jobs == [job]
    job.stop()


@pytest.mark.slow
def test_a_job_outlives_the_last_tab_for_a_while_and_not_for_ever():
    visitors = Visitors(keep_seconds=0.2)
    ours = visitors.find(OURS)
    job = started(ours)
    visitors.find(OURS)
    ours.leave()
    time.sleep(0.4)
    assert job.is_active, "a second tab is open"
    ours.leave()
    wait_until(lambda: not job.is_active)
    assert job.state == "stopped"


def test_who_comes_back_in_time_keeps_the_job():
    visitors = Visitors(keep_seconds=0.3)
    ours = visitors.find(OURS)
    job = started(ours)
    ours.leave()
    visitors.find(OURS)
    time.sleep(0.6)
    assert job.is_active
    job.stop()


def test_a_browser_that_does_not_say_who_it_is_takes_its_jobs_with_it():
    assert [Visitors(keep_seconds=60).find(token) for token in ("", "A" * 32, "a" * 31, "../" + "a" * 29)] == [None] * 4
    nobody = Visitor()
    job = started(nobody)
    nobody.leave()
    wait_until(lambda: not job.is_active)


def test_what_was_started_before_the_browser_said_who_it_is_is_its_own():
    visitors, nobody = Visitors(keep_seconds=60), Visitor()
    job = started(nobody)
    ours = visitors.find(OURS)
    ours.take_over(nobody)
    assert ours.jobs == [job] and nobody.jobs == []
    job.stop()


def test_what_ended_while_nobody_looked_is_there_for_who_comes_back():
    visitors = Visitors(keep_seconds=60)
    ours = visitors.find(OURS)
    seen, job = started(ours, "batch-size"), started(ours)
    seen.stop()
    seen.join(30)
    ours.leave()
    job.stop()
    job.join(30)
    visitors.find(THEIRS)
    assert visitors.find(OURS).jobs == [job]


def test_a_line_says_where_a_job_is_and_how_it_stands_and_leads_there():
    gone = []
    elsewhere = Elsewhere({"compare": "Compare"}, gone.append)
    job = started(Visitor())
    elsewhere.show([job])
    (line,) = elsewhere.view
    progress, text, show, stop = line
    assert text.object == "A solve on page Compare, running: waiting" and progress.visible
    show.clicks += 1
    assert gone == [job]
    stop.clicks += 1
    job.join(30)
    elsewhere._next = 0.0
    elsewhere.show([job])
    assert text.object == "A solve on page Compare, stopped: waiting" and not progress.visible and not stop.visible
    elsewhere.show([])
    assert not len(elsewhere.view)
