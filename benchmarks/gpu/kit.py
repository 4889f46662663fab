"""Collect what a bare GPU machine lacks: wheels for Python 3.12 on Linux, and data; see `benchmarks/gpu.sh`.

    python -m benchmarks.gpu.kit [--to .gpu-kit] [--data FOLDER]

The machine should already have PyTorch, Triton, GPyTorch, pandas, xarray, SciPy, scikit-learn and pytest.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

#: packages that the machine lacks; those of the second line have no wheel on the index
WHEELS = ("zarr", "numcodecs", "donfig", "google-crc32c", "plotly", "pooch", "platformdirs")
SOURCES = ("pykeops", "keopscore")
PYTHON, PLATFORMS = "3.12", ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux1")
#: data sets of the stages, by the files of their folder
DATA = ("sgemm_product_dataset.zip", "PRSA2017_Data_20130301-20170228.zip", "earth/Altitude.h5", "paper_runs.jsonl.gz")
MOST_MIB, MOST_WHEELS_MIB = 46.0, 40.0


def size(folder: Path) -> float:
    """Return the MiB of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words], check=True)


def collect_wheels(to: Path) -> None:
    """Download the wheels, in the versions that are installed here, and build those that have none."""
    target = ["--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp"]
    for platform in PLATFORMS:
        target += ["--platform", f"{platform}_x86_64"]
    pip("download", "--no-deps", *target, "-d", str(to), *(f"{name}=={metadata.version(name)}" for name in WHEELS))
    with tempfile.TemporaryDirectory() as folder:
        pip("wheel", "--no-deps", "-w", folder, *(f"{name}=={metadata.version(name)}" for name in SOURCES))
        for wheel in Path(folder).glob("*.whl"):
            if not wheel.name.endswith("-none-any.whl"):
                raise ValueError(f"{wheel.name} is for this machine alone; it must be a pure wheel")
            shutil.copy2(wheel, to)


def collect_data(to: Path, data: Path) -> None:
    """Copy the data that the stages need."""
    for name in DATA:
        target = to / "data" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(data / name, target)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.kit", description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(".gpu-kit"))
    parser.add_argument("--data", type=Path, default=os.environ.get("APVIZ_DATA"), help="default: APVIZ_DATA")
    a = parser.parse_args()
    if a.data is None:
        parser.error("APVIZ_DATA is not set: say with --data where the data sets are")
    shutil.rmtree(a.to, ignore_errors=True)
    a.to.mkdir(parents=True)
    collect_wheels(a.to)
    if (wheels := size(a.to)) > MOST_WHEELS_MIB:
        sys.exit(f"the wheels are {wheels:.1f} MiB, more than {MOST_WHEELS_MIB:g}: take some out of WHEELS")
    collect_data(a.to, a.data)
    if (total := size(a.to)) > MOST_MIB:
        sys.exit(f"the kit is {total:.1f} MiB, more than {MOST_MIB:g}: take some data out of DATA")
    print(f"{a.to}: {total:.1f} MiB, {len(list(a.to.glob('*.whl')))} wheels")


if __name__ == "__main__":
    main()
