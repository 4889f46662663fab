"""Compiles the CPU engine into a wheel where APVIZ_PREBUILD=1 asks for it; other wheels are pure Python.

Without it, the engine is compiled when it is first used, if there is a compiler. The libraries use nothing of Python,
so that one wheel serves all its versions.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "apviz/operators/prebuilt"


class PrebuiltEngine(BuildHookInterface):  # type: ignore[type-arg]
    """Adds compiled libraries to a wheel, and the platform to its name."""

    scratch: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the libraries; OSError, which ends the build, if one that was asked for fails."""
        if version == "editable" or os.environ.get("APVIZ_PREBUILD", "0") in ("", "0"):
            return
        tag = platform_tag()
        self.scratch = Path(tempfile.mkdtemp(prefix="apviz-engine-"))
        machine = "x86_64" if tag.endswith(("x86_64", "amd64")) else tag.rpartition("_")[2]
        more = shlex.split(os.environ.get("ARCHFLAGS", ""))  # for a macOS of the other kind
        for path in build_module(self.root).prebuild(self.scratch, system=sys.platform, machine=machine, more=more):
            self.app.display_info(f"compiled {path.relative_to(self.scratch)}")
        build_data["force_include"][str(self.scratch)] = FOLDER
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder of `initialize`."""
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)


def platform_tag() -> str:
    """Return the tag of the platform of this Python; on macOS, of one kind of processor, as the libraries are."""
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return tag.replace("universal2", os.uname().machine) if tag.startswith("macosx") else tag


def build_module(root: str) -> Any:
    """Load `native_build.py` without apviz, whose dependencies a build does not have."""
    path = Path(root) / "apviz" / "operators" / "native_build.py"
    spec = importlib.util.spec_from_file_location("native_build", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
