#!/bin/sh
# Run benchmarks.gpu on a machine without a network: sh benchmarks/gpu.sh KIT OUT [arguments of benchmarks.gpu]
# KIT is the folder that `make gpu-kit` collects, OUT the folder of the results.
set -eu
kit=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
shift 2
cd "$(dirname "$0")/.."
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
python3 -m pip install -q --disable-pip-version-check --no-index --no-deps --no-compile --no-cache-dir --upgrade \
  --root-user-action=ignore --target "$packages" "$kit"/*.whl
export PYTHONPATH="$PWD:$packages" APVIZ_DATA="$kit/data" PYTHONUNBUFFERED=1
python3 -m benchmarks.gpu --out "$out" "$@"
