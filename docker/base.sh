#!/usr/bin/env bash
# Make the base image of docker/Dockerfile from Debian's own packages, for a machine that reaches no image registry.
# It needs root, debootstrap and buildah. The certificates that this machine trusts are trusted in the image too, because
# a machine that reaches no image registry often reaches package registries through a proxy with a certificate of its own.
set -euo pipefail

image=${1:-python:3.11-slim-bookworm}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

debootstrap --variant=minbase \
  --include=ca-certificates,python3.11,python3.11-venv,python3-pip,python-is-python3 bookworm "$root" >&2
find /usr/local/share/ca-certificates -name '*.crt' -exec cp {} "$root/usr/local/share/ca-certificates/" \;
chroot "$root" update-ca-certificates >&2
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*

container=$(buildah from scratch)
buildah add --quiet "$container" "$root" / >&2
# Debian's pip refuses to install beside Debian's packages; in an image of one purpose nothing is there to protect.
buildah config --env PIP_BREAK_SYSTEM_PACKAGES=1 --env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt "$container"
buildah commit --quiet --rm "$container" "$image" >&2
echo "$image"
