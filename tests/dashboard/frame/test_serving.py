"""Which addresses the server listens on, and what it asks for before it does."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard import serve


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.5", "::", "", "example.org"])
def test_an_address_that_others_can_reach_asks_who_may_come_before_anything_is_made(tmp_path, address):
    with pytest.raises(ValueError, match="can be reached by others: choose a password with --basic-auth .* --no-auth"):
        serve(tmp_path / "runs", address=address)
    assert not (tmp_path / "runs").exists()


def test_the_own_address_of_ipv6_is_refused_with_the_one_to_take(tmp_path):
    with pytest.raises(ValueError, match=r"::1 cannot be served to this machine alone; take 127\.0\.0\.1"):
        serve(tmp_path / "runs", address="::1")
    assert not (tmp_path / "runs").exists()
