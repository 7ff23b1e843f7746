#!/usr/bin/env bash
# Prepare a Python that imports torch (for CPUs) and pyarrow, for the PyTorch recipe of docs/TRAINING.md, and print how the
# suite finds it. PyPI has torch for x86 with its libraries for GPUs only, so it is that of Debian 12, unpacked into a
# folder: nothing is installed into the system, and no root is needed.
set -euo pipefail

folder=${1:?usage: torch_python.sh FOLDER PYTHON UV}
python=${2:?}
uv=${3:?}
command="$folder/python"

if ! [ -x "$command" ] || ! "$command" -c 'import torch, pyarrow' 2>/dev/null; then
  if ! apt-cache show python3-torch 2>/dev/null | grep 'python3\.11' >/dev/null; then
    echo "No package python3-torch for Python 3.11 here (Debian 12 has it)." >&2
    echo "  → set WINDROW_TORCH_PYTHON to any Python that imports torch and pyarrow." >&2
    exit 1
  fi
  mkdir -p "$folder/packages" "$folder/root"
  echo "Fetching torch and what the system lacks of its libraries into $folder (150 MB) …"
  missing=$(apt-get install --simulate --no-install-recommends python3-torch | awk '/^Inst /{print $2}')
  (cd "$folder/packages" && xargs apt-get download -qq <<<"$missing")
  for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder/root"; done
  "$uv" venv --quiet --clear --python "$python" "$folder/venv"
  "$uv" pip install --quiet --python "$folder/venv" 'numpy<2' 'pyarrow<20' typing_extensions
  echo "$folder/root/usr/lib/python3/dist-packages" > "$folder/venv/lib/python3.11/site-packages/debian.pth"
  libraries=$(find "$folder/root/usr/lib" "$folder/root/lib" -name '*.so.*' -printf '%h\n' | sort -u | paste -sd:)
  cat > "$command" <<END
#!/bin/sh
export LD_LIBRARY_PATH="$libraries"
exec "$folder/venv/bin/python" "\$@"
END
  chmod +x "$command"
  rm -r "$folder/packages"
fi
"$command" -c 'import pyarrow, torch; print("torch", torch.__version__, "pyarrow", pyarrow.__version__)'
echo "export WINDROW_TORCH_PYTHON=$command"
