#!/usr/bin/env bash
# Known weaknesses of the packages in uv.lock (pip-audit, OSV's data base), and the licences of those that are installed.
# Ends with 1 where a weakness is known, and with 60 where the data base cannot be asked.
set -euo pipefail

UV=${UV:?the path of uv}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir -p dist
echo "Licences of the installed packages: dist/licences.json"
"$UV" tool run --from pip-licenses==5.5.5 pip-licenses --python .venv/bin/python --format json \
  --with-urls --output-file dist/licences.json >"$folder/licences" 2>&1 || {
  cat "$folder/licences" >&2
  echo "The licences could not be listed: does this machine reach a Python package index?" >&2
  exit 60
}
.venv/bin/python - <<'END'
import collections, json
found = json.load(open("dist/licences.json"))
names = collections.Counter(one["License"].strip().splitlines()[0][:60] if one["License"].strip() else "UNKNOWN" for one in found)
for name, count in names.most_common():
    print(f"{count:5}  {name}")
END

"$UV" export --frozen --no-dev --all-extras --no-emit-project --quiet --output-file "$folder/requirements.txt"
code=0
"$UV" tool run --from pip-audit==2.10.1 pip-audit --vulnerability-service osv --disable-pip --no-deps \
  --require-hashes --progress-spinner off --timeout 15 --requirement "$folder/requirements.txt" >"$folder/audit" 2>&1 || code=$?
if [ "$code" -ne 0 ] && ! grep -q '^Found ' "$folder/audit"; then
  tail -n 1 "$folder/audit" >&2
  echo "Whether weaknesses are known was NOT found out: https://api.osv.dev does not answer from here, or pip-audit could" >&2
  echo "not be installed. Run this where they can be reached." >&2
  exit 60
fi
cat "$folder/audit"
exit "$code"
