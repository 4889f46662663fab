"""Changes to runs in a folder, as on real disks."""

from __future__ import annotations

import io
import json
import os
import time


def entry(runs, name):
    return next(each for each in runs.entries() if each.name == name)


def rewrite(path, change):
    """Change the root attributes of a trace on disk."""
    root = json.loads((path / "zarr.json").read_text())
    change(root["attributes"])
    (path / "zarr.json").write_text(json.dumps(root))


def leave_as_killed(path, age=3600.0):
    """Leave the trace as after a kill some seconds ago."""

    def change(attributes):
        attributes["status"] = "interrupted"
        for name in ("stop_reason", "stop_message", "residual", "epochs", "work", "seconds"):
            attributes.pop(name, None)

    rewrite(path, change)
    os.utime(path / "zarr.json", (time.time() - age,) * 2)


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def exported(runs, *names):
    file = io.BytesIO()
    runs.export(names, file)
    return file.getvalue()
