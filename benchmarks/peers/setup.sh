#!/bin/sh
# Installs the peers of the benchmarks into build/peers, a Python virtual environment.
#   sh benchmarks/peers/setup.sh [torch]      torch takes some GB
set -eu
cd "$(dirname "$0")/../.."
python3 -m venv build/peers
build/peers/bin/pip install --quiet drjit==1.5.0 numpy "$@"
