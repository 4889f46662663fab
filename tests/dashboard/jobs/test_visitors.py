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


def test_only_a_returning_tab_finds_the_jobs_that_it_left():
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
def test_a_job_outlives_the_last_tab_for_a_limited_time():
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


def test_a_visitor_who_returns_in_time_keeps_the_job():
    visitors = Visitors(keep_seconds=0.3)
    ours = visitors.find(OURS)
    job = started(ours)
    ours.leave()
    visitors.find(OURS)
    time.sleep(0.6)
    assert job.is_active
    job.stop()


def test_jobs_of_an_anonymous_browser_end_with_it():
    assert [Visitors(keep_seconds=60).find(token) for token in ("", "A" * 32, "a" * 31, "../" + "a" * 29)] == [None] * 4
    nobody = Visitor()
    job = started(nobody)
    nobody.leave()
    wait_until(lambda: not job.is_active)


def test_jobs_started_before_a_browser_identified_itself_belong_to_it():
    visitors, nobody = Visitors(keep_seconds=60), Visitor()
    job = started(nobody)
    ours = visitors.find(OURS)
    ours.take_over(nobody)
    assert ours.jobs == [job] and nobody.jobs == []
    job.stop()


def test_jobs_that_ended_without_a_viewer_are_shown_to_a_returning_visitor():
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


def test_a_line_states_the_page_and_progress_of_a_job_and_links_to_it():
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
