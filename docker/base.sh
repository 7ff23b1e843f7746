#!/usr/bin/env bash
# Make a base image for docker/Dockerfile from Debian's own packages, for a machine that reaches no image registry:
#     docker/base.sh docker|buildah NAME
# It needs root and debootstrap. The certificates that this machine trusts are trusted in the image too, because a machine
# that reaches no image registry often reaches package registries through a proxy with a certificate of its own.
set -euo pipefail

engine=$1 image=$2 PATH=$PATH:/usr/sbin:/sbin
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
  echo "no image registry gave the base image; to make one from Debian's packages, be root and have debootstrap" >&2
  exit 1
fi
echo "no image registry gave the base image: making $image from Debian's packages …" >&2
# Debian's pip refuses to install beside Debian's packages; in an image of one purpose nothing is there to protect.
settings=(PIP_BREAK_SYSTEM_PACKAGES=1 SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

debootstrap --variant=minbase \
  --include=ca-certificates,python3.11,python3.11-venv,python3-pip,python-is-python3 bookworm "$root" >&2
find /usr/local/share/ca-certificates -name '*.crt' -exec cp {} "$root/usr/local/share/ca-certificates/" \;
chroot "$root" update-ca-certificates >&2
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
chmod 755 "$root"

if [ "$engine" = docker ]; then
  tar --create --directory "$root" . | docker import "${settings[@]/#/--change=ENV }" - "$image" >&2
else
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$root" / >&2
  buildah config "${settings[@]/#/--env=}" "$container"
  buildah commit --quiet --rm "$container" "$image" >&2
fi
