"""Warnings of a thread, while other threads warn."""

from __future__ import annotations

import threading
import warnings

import pytest

pytest.importorskip("panel")

from apviz.dashboard.jobs.heard import heard_warnings


def test_each_thread_hears_its_own_warnings_once_and_others_go_where_they_went():
    filters, show = warnings.filters[:], warnings.showwarning
    found, met = {}, threading.Barrier(2)

    def listen(name):
        with heard_warnings() as heard:
            met.wait()
            for number in range(2):
                warnings.warn(f"{number} of {name}", stacklevel=1)
            met.wait()
        found[name] = heard()

    threads = [threading.Thread(target=listen, args=(name,)) for name in ("a", "b")]
    with pytest.warns(UserWarning, match="of the page"):
        for each in threads:
            each.start()
        warnings.warn("of the page", stacklevel=1)
        for each in threads:
            each.join()
    assert found == {"a": ["0 of a"], "b": ["0 of b"]}
    assert warnings.filters == filters and warnings.showwarning is show
