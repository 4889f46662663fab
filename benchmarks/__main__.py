"""Runs the parts named, or all, one process each, so that none inherits another's memory or threads."""

from __future__ import annotations

import subprocess
import sys

PARTS = ("columns_matmul", "epoch_cost", "memory", "scaling", "published_sgemm")


def main() -> int:
    parts = sys.argv[1:] or list(PARTS)
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        print(f"parts are {', '.join(PARTS)}; there is no {', '.join(unknown)}", file=sys.stderr)
        return 2
    failed = []
    for part in parts:
        print(f"== {part}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{part}"]).returncode:
            failed.append(part)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
