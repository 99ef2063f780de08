#!/usr/bin/env bash
# In mount and process namespaces of its own: starts the service of an unpacked image as a container
# with a read-only root does, plans a model with it, and ends it.
#
# $1: folder of the image; $2: user id; $3: port; $4: environment, one NAME=value a line.
set -euo pipefail
root=$1 user=$2 port=$3
mapfile -t environment <<<"$4"
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
for folder in tmp data; do
    mount -t tmpfs -o mode=1777 tmpfs "$root/$folder"
done

command=(chroot "--userspec=$user:0" "$root" /usr/bin/env -i "${environment[@]}"
    "MESHWRIGHT_PORT=$port" /bin/sh /opt/meshwright/bin/entrypoint.sh)

inside() {
    "${command[@]}" "$@"
}

if inside touch /opt/meshwright/written 2>/dev/null; then
    echo "the root file system can be written" >&2
    exit 1
fi
inside meshwright-server keys create >"$root/tmp/key"
"${command[@]}" meshwright-server serve &
server=$!
for _ in $(seq 120); do
    sleep 0.5
    inside meshwright-server health >/dev/null 2>&1 && break
done
inside meshwright-server health
inside meshwright capture decoder --layers 2 --hidden 512 --heads 8 --ffn 2048 --vocabulary 32000 \
    --batch 16 --seq 512 -o /tmp/model.json
before=$(find "$root/tmp/meshwright-kernels" -name '*.nbc' | wc -l)
started=$(date +%s)
inside env MESHWRIGHT_API_KEY_FILE=/tmp/key meshwright plan /tmp/model.json --topology h100-1x8 \
    --server "http://127.0.0.1:$port" -o /tmp/plan.json
after=$(find "$root/tmp/meshwright-kernels" -name '*.nbc' | wc -l)
echo "planned in $(($(date +%s) - started)) s; kernels compiled in the image: $before, since: $((after - before))"
kill -TERM "$server"
wait "$server" || [ $? = $((128 + 15)) ]  # the service ends in order, then by the signal
echo "the image runs with a read-only root under user id $user"
