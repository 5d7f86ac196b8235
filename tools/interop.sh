#!/bin/sh
# Installs, from PyPI, the libraries of Python with which we share arrays, for the tests
# tests/python/interop_*.py: 2.4 GB to fetch, 5 GB on disk, none of it needs a GPU. Each is a folder of
# its own, so that one that cannot be had, or that wants another version of something, harms no other.
# usage: interop.sh [LIBRARY...]     (all)
# The folder is JITC_INTEROP_DIR, else jitc-interop in XDG_CACHE_HOME or ~/.cache; it may be kept, and
# used by several working trees.
set -eu
cd "$(dirname "$0")"
python=${JITC_INTEROP_PYTHON:-python3}
top=${JITC_INTEROP_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/jitc-interop}
tag=$($python -c 'import sys; print("python%d.%d" % sys.version_info[:2])')

# LIBRARY PACKAGES: complete, since pip is told to add none.
libraries() {
    cat <<'EOF'
numpy       numpy==2.4.6
numpy_old   numpy==1.26.4
torch       torch==2.15.0 typing-extensions==4.16.0 nvidia-cuda-runtime==13.2.86
torch_old   torch==2.0.1 typing-extensions==4.16.0 nvidia-cuda-runtime-cu11==11.7.99 sympy==1.14.0 mpmath==1.4.1
jax         jax==0.10.2 jaxlib==0.10.2 ml_dtypes==0.6.0 opt_einsum==3.4.0 scipy==1.17.1
tensorflow  tensorflow-cpu==2.21.0 ml_dtypes==0.6.0 opt_einsum==3.4.0 absl-py==2.5.1 astunparse==1.6.3 flatbuffers==25.12.19 gast==0.7.0 google-pasta==0.2.0 grpcio==1.85.3 h5py==3.14.0 keras==3.15.1 namex==0.1.0 optree==0.20.0 packaging==26.4 protobuf==7.36.2 rich==15.0.0 markdown-it-py==4.3.0 mdurl==0.1.2 pygments==2.21.0 six==1.17.0 termcolor==3.3.0 typing-extensions==4.16.0 wheel==0.48.0 wrapt==2.5.2 setuptools==84.2.1 requests==2.34.2 urllib3==2.8.0 idna==3.20 certifi==2026.10.19.post1 charset-normalizer==3.5.3
tvm_ffi     apache-tvm-ffi==0.1.15.post2 typing-extensions==4.16.0
mlx         mlx==0.32.4 mlx-cpu==0.32.4
warp        warp-lang==1.19.0
EOF
}

install() { # LIBRARY PACKAGE...
    folder=$top/$tag/$1
    shift
    list=$*
    [ "$(cat "$folder/installed" 2>/dev/null)" != "$list" ] || return 0
    rm -rf "$folder"
    $python -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
        --no-compile --no-cache-dir --only-binary :all: --target "$folder" "$@" &&
        { [ ! -d "$folder/torch/lib" ] || $python cuda_stubs.py "$folder/torch/lib"; } &&
        echo "$list" >"$folder/installed"
}

mkdir -p "$top"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
exec 9>"$top/lock"
flock 9
libraries | while read -r name packages; do
    [ $# = 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
    # The packages split into words.
    # shellcheck disable=SC2086
    install "$name" $packages >"$log" 2>&1 </dev/null || {
        rm -rf "${top:?}/$tag/$name"
        echo "$name cannot be installed for $tag: its tests are skipped. It was said:"
        tail -n 3 "$log"
    }
done
