#!/usr/bin/env bash
# Run the demo on the services of docker/compose.yaml, in containers and a volume of this try's own name, and take them away
# again. The exit code is the demo's. It needs `docker compose`, the image of `make images`, and the ports of the platform.
set -euo pipefail

starts_within_s=600
compose=(docker compose --file "$(dirname "${BASH_SOURCE[0]}")/compose.yaml" --project-name windrow-demo)

refuse() { # WHAT NEXT_MOVE
  printf '%s\n  → %s\n' "$1" "$2" >&2
  exit 1
}

docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1 ||
  refuse 'no docker engine answers, or `docker compose` is not installed' \
    'start one; on Debian: apt-get install docker.io. docs/DEPLOYMENT.md says what this was tried with.'
docker image inspect windrow >/dev/null 2>&1 || refuse 'the image `windrow` is not here' 'make images'
[ -z "$(docker ps --quiet --filter ancestor=windrow)" ] ||
  refuse 'containers of the image `windrow` are running, and one machine has room for one such cluster' \
    'end them first (docker ps --filter ancestor=windrow)'

ended() {
  local code=$?
  [ "$code" = 0 ] || "${compose[@]}" logs --no-color --tail 20 >&2 || true
  "${compose[@]}" down --volumes || true
  exit "$code"
}
trap ended EXIT
"${compose[@]}" up --no-build --detach --wait --wait-timeout "$starts_within_s"
"${compose[@]}" exec --no-TTY airflow sh -c '. platform/cluster/env && windrow demo'
