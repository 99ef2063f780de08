#!/usr/bin/env bash
# Builds the Dockerfile without a daemon or a registry, and runs the image with a read-only root file
# system under an arbitrary user id. As root on Debian, with buildah and debootstrap.
#
# BASE_ROOT: folder of a Debian root, made by debootstrap if it is missing.
# BUILD_OPTIONS: further options of `buildah build`, such as --volume for a configuration of pip.
set -euo pipefail
cd "$(dirname "$0")/../.."
base_root=${BASE_ROOT:-/var/tmp/meshwright-image/root}
suite=${SUITE:-bookworm}
mirror=${MIRROR:-}
user=${CHECK_USER:-12345}
port=${CHECK_PORT:-8799}
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}

for program in buildah debootstrap; do
    command -v "$program" >/dev/null || { echo "image-check needs $program: apt-get install $program" >&2; exit 1; }
done

if [ ! -x "$base_root/usr/bin/python3" ]; then
    mkdir -p "$base_root"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates,openssl,netbase \
        "$suite" "$base_root" $mirror
fi
base=$(buildah from scratch)
buildah add --quiet "$base" "$base_root" / >/dev/null
buildah commit --quiet --rm "$base" meshwright-base >/dev/null
# shellcheck disable=SC2086
buildah build --format docker --build-arg BASE=localhost/meshwright-base \
    --build-arg VERSION="${VERSION:-0.1.0}" --build-arg REVISION="$(git rev-parse HEAD)" \
    ${BUILD_OPTIONS:-} --tag meshwright .
buildah inspect --type image --format '{{.Docker.Config.Labels}}' meshwright

container=$(buildah from meshwright)
root=$(buildah mount "$container")
trap 'buildah umount "$container" >/dev/null; buildah rm "$container" >/dev/null' EXIT
environment=$(buildah inspect --type image --format '{{range .Docker.Config.Env}}{{println .}}{{end}}' meshwright)
unshare --mount --pid --fork --mount-proc --kill-child bash "$PWD/deploy/image/run-read-only.sh" \
    "$root" "$user" "$port" "$environment"
