"""The dashboard behind a proxy that serves it below a prefix."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.dashboard.browser.server import Server
from tests.dashboard.browser.test_own_table import GOOD, offer
from tests.dashboard.proxying import proxied
from tests.ports import free_port

PASSWORD = "open sesame"


@pytest.mark.slow
def test_login_upload_and_downloads_work_below_a_prefix_and_ask_for_nothing_outside(visit, tmp_path):
    own = free_port()
    server = Server(tmp_path / "runs", "--basic-auth", PASSWORD, "--allow-origin", f"127.0.0.1:{own}")
    try:
        with proxied(server.port, own) as server.url:
            someone = visit(to=server)
            someone.tab.goto(server.address({"page": "predict"}))
            someone.tab.get_by_label("Password").fill(PASSWORD)
            someone.press("Log in")
            someone.look().edit("Use my data")
            offer(someone, tmp_path, "prices.csv", GOOD)
            someone.says("48 to train on")
            someone.press("Use this table")
            someone.press("Fit")
            someone.says("Each of 60 rows was predicted from the other 59")
            someone.field("Points along each input").fill("5")
            someone.press("Predict a grid")
            someone.says("Grid of 5 × 5")
            for name in ("CSV", "Model, for apviz predict"):
                with someone.tab.expect_download() as downloading:
                    someone.tab.get_by_role("link", name=name, exact=True).click()
                downloading.value.save_as(tmp_path / name)
            assert len(pd.read_csv(tmp_path / "CSV")) == 25
            (model,) = server.runs.glob(".models/*/model.apviz")
            assert (tmp_path / "Model, for apviz predict").read_bytes() == model.read_bytes()
            someone.server_may_go = True
    finally:
        server.kill()
