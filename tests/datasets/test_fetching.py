"""Downloads from a small local server."""

import dataclasses
import hashlib
import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from apviz import datasets
from apviz.datasets.fetching import fetch_card, locate


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zipped:
        zipped.writestr("sgemm_product.csv", bytes(range(256)) * 2_000)
    return buffer.getvalue()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server, body = self.server, self.server.body
        server.requests += 1
        if "missing" in self.path:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.cuts > 0:
            server.cuts -= 1
            body = body[: len(body) // 2]
            self.close_connection = True
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.body, running.requests, running.cuts = archive(), 0, 0
        running.url = f"http://127.0.0.1:{running.server_port}"
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield running
        running.shutdown()


def test_load_finds_the_archive_that_fetch_saved(empty_folders, server):
    path = datasets.fetch("sgemm", progress=False, base_url=server.url)
    assert path.read_bytes() == server.body
    assert locate(datasets.card("sgemm")) == path and empty_folders / "cache" in path.parents
    datasets.fetch("sgemm", progress=False, base_url=server.url)
    assert server.requests == 1  # it is in the cache, and not fetched again


def test_progress_is_shown(empty_folders, server, capsys):
    datasets.fetch("sgemm", base_url=server.url)
    assert "kB" in capsys.readouterr().out


def test_an_interrupted_transfer_is_repeated(empty_folders, server):
    server.cuts = 2
    path = datasets.fetch("sgemm", progress=False, base_url=server.url)
    assert server.requests == 3 and path.read_bytes() == server.body
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_transfer_interrupted_too_often_keeps_nothing(empty_folders, server):
    server.cuts = 3
    with pytest.raises(datasets.DownloadError, match="Could not download"):
        datasets.fetch("sgemm", progress=False, base_url=server.url)
    assert not [path for path in (empty_folders / "cache").rglob("*") if path.is_file()]


def test_an_error_about_a_wrong_checksum_states_both_and_removes_the_file(empty_folders, server):
    card = dataclasses.replace(datasets.card("sgemm"), sha256="0" * 64)
    with pytest.raises(datasets.DownloadError, match="wrong checksum") as caught:
        fetch_card(card, progress=False, base_url=server.url)
    assert "0" * 64 in str(caught.value) and hashlib.sha256(server.body).hexdigest() in str(caught.value)
    assert not [path for path in (empty_folders / "cache").rglob("*") if path.is_file()]


def test_a_right_checksum_is_accepted(empty_folders, server):
    card = dataclasses.replace(datasets.card("sgemm"), sha256=hashlib.sha256(server.body).hexdigest())
    assert fetch_card(card, progress=False, base_url=server.url).is_file()


def test_an_error_page_instead_of_an_archive_is_not_kept(empty_folders, server):
    server.body = b"<html>Sorry</html>"
    with pytest.raises(datasets.DownloadError, match="did not send a zip archive"):
        datasets.fetch("sgemm", progress=False, base_url=server.url)
    assert not [path for path in (empty_folders / "cache").rglob("*") if path.is_file()]


def test_a_missing_page_is_not_requested_again(empty_folders, server):
    with pytest.raises(datasets.DownloadError, match="404"):
        datasets.fetch("sgemm", progress=False, base_url=f"{server.url}/missing")
    assert server.requests == 1


def test_an_unreachable_server_raises_a_download_error(empty_folders):
    with pytest.raises(datasets.DownloadError, match="Could not download http://127.0.0.1:9/"):
        datasets.fetch("sgemm", progress=False, base_url="http://127.0.0.1:9")


def test_an_error_about_a_data_set_without_an_archive_says_how_to_get_it(empty_folders):
    with pytest.raises(datasets.DownloadError, match="kin40k cannot be fetched.*No official archive"):
        datasets.fetch("kin40k")
    with pytest.raises(datasets.DownloadError, match="comes with scikit-learn"):
        datasets.fetch("china")


@pytest.mark.parametrize("file", ["sgemm_product.csv", "sgemm/sgemm_product_dataset.zip"])
def test_the_data_folder_comes_before_the_cache(empty_folders, server, file):
    datasets.fetch("sgemm", progress=False, base_url=server.url)
    own = empty_folders / "data" / file
    own.parent.mkdir(exist_ok=True)
    own.write_bytes(b"")
    assert locate(datasets.card("sgemm")) == own
