#!/bin/sh
# Installs the peers of the benchmarks into build/peers, a Python virtual environment. PyTorch comes as for the
# tests of interoperation (tools/interop.sh): without what only a GPU needs.
set -eu
cd "$(dirname "$0")/../.."
python3 -m venv build/peers
build/peers/bin/pip install --quiet drjit==1.5.0 numpy jax numba
JITC_INTEROP_PYTHON=$PWD/build/peers/bin/python
export JITC_INTEROP_PYTHON
sh tools/interop.sh torch
build/peers/bin/python - <<'PYTHON'
import os, site, sys
cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
top = os.environ.get("JITC_INTEROP_DIR") or os.path.join(cache, "jitc-interop")
with open(os.path.join(site.getsitepackages()[0], "torch.pth"), "w") as file:
    print(os.path.join(top, "python%d.%d" % sys.version_info[:2], "torch"), file=file)
PYTHON
