"""Uploads by an attacker, without a browser that respects the limit."""

from __future__ import annotations

import asyncio
import secrets

import psutil
import pytest

from tests.dashboard.browser.server import PATIENCE, Server
from tests.trust.tabs import Tab

MB = 10**6


@pytest.mark.slow
def test_uploads_beyond_the_limit_are_rejected_and_use_neither_memory_nor_disk(recorded, tmp_path, monkeypatch):
    (place := tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    server = Server(recorded, "--max-upload", "5", "--tab-seconds", "1")
    memory = psutil.Process(server.process.pid).memory_info

    def on_disk() -> int:
        return sum(path.stat().st_size for path in place.rglob("upload-*/*"))

    async def attack() -> None:
        tab = Tab(server.url, secrets.token_hex(16), "bytes that unpack to more than 4 MB")
        await tab.open({})
        before = memory().rss
        for number in range(1, 9):
            # 40 MB in 50 kB of text
            await tab.drop("zeros.csv", bytes(40 * MB), number, 10**9)
        await tab.drop("pieces.csv", bytes(2 * MB), 1, 3)
        await tab.drop("pieces.csv", bytes(2 * MB), 2, 3)
        await tab.drop("pieces.csv", bytes(2 * MB), 3, 3)
        await tab.says("pieces.csv is too large; up to 5 MB are accepted")
        assert tab.refused == 8
        await tab.drop("unfinished.csv", bytes(2 * MB), 1, 2)
        async with asyncio.timeout(PATIENCE):
            while on_disk() != 2 * MB:
                await asyncio.sleep(0.1)
        # once 40 MB for each of them, until the server ended
        assert memory().rss - before < 100 * MB
        await tab.close()
        async with asyncio.timeout(PATIENCE):
            while on_disk():
                await asyncio.sleep(0.1)

    try:
        asyncio.run(attack())
    finally:
        server.kill()
