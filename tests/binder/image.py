"""The image that mybinder.org makes of `binder/`, without Docker: `python -m tests.binder.image FOLDER` starts it.

As repo2docker does for a repository with `binder/requirements.txt`: the repository is the home folder, and in an
environment with nothing else in it run `pip install -r`, then `postBuild`; a session is `start` with Jupyter's command.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: variables by which this machine reaches package indexes
_PASSED_ON = ("PIP_", "SSL_CERT", "REQUESTS_CA", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@dataclass(frozen=True)
class Image:
    """An environment built from `binder/` alone.

    Attributes:
        home: a clean copy of the repository; Binder's home and working folder.
        prefix: where Python and its packages are.
    """

    home: Path
    prefix: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return a clean environment with only the access to package indexes."""
        path = f"{self.prefix / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        passed = {name: value for name, value in os.environ.items() if name.upper().startswith(_PASSED_ON)}
        # an unreachable index would be tried five times for every package
        passed.setdefault("PIP_RETRIES", "1")
        return {**passed, "PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", "SHELL": "/bin/bash"}

    def run(self, *command: str) -> str:
        """Run a command in the image, and return its output.

        Raises:
            RuntimeError: it fails; with what it said.
        """
        done = subprocess.run(command, cwd=self.home, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        return done.stdout

    def start(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a command through `binder/start`, the entrypoint of the container."""
        with log.open("wb") as said:
            return subprocess.Popen(
                ["binder/start", *command], cwd=self.home, env=self.environment, stdout=said, stderr=said
            )


def python() -> str | None:
    """Return the Python that `runtime.txt` names, if it exists."""
    version = (ROOT / "binder/runtime.txt").read_text("utf-8").strip().removeprefix("python-")
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    return shutil.which(f"python{version}")


def build(folder: Path) -> Image:
    """Copy the files that git tracks or would track, and build the image; a few minutes, 2 GB."""
    image = Image(folder / "home", folder / "environment")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (image.home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, image.home / name)
    subprocess.run([python() or sys.executable, "-m", "venv", image.prefix], check=True)
    image.run(str(image.prefix / "bin/pip"), "install", "--no-cache-dir", "-r", "binder/requirements.txt")
    image.run("./binder/postBuild")
    return image


if __name__ == "__main__":
    from tests.binder.visit import Visit

    visit = Visit(build(Path(sys.argv[1])))
    print(visit.address("lab/tree/notebooks/00-start-here.ipynb"), visit.address("apviz/"), sep="\n", flush=True)
    visit.process.wait()
