#!/usr/bin/env bash
# Run the demo on the services of docker/compose.yaml, in containers, network and volume of this try's own name.
# The exit code is the demo's. It needs `docker compose`, and the image of `make images`.
set -euo pipefail

compose=(docker compose --file "$(dirname "${BASH_SOURCE[0]}")/compose.yaml" --project-name windrow-demo)
docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1 || {
  echo "no docker engine answers, or \`docker compose\` is not installed"
  echo "  → start one; on Debian: apt-get install docker.io. docs/DEPLOYMENT.md says what this was tried with."
  exit 1
} >&2
docker image inspect windrow >/dev/null 2>&1 || {
  echo "the image \`windrow\` is not here"
  echo "  → make images"
  exit 1
} >&2

trap '"${compose[@]}" down --volumes' EXIT
"${compose[@]}" up --no-build --detach --wait
"${compose[@]}" exec --no-TTY airflow sh -c '. platform/cluster/env && windrow demo'
