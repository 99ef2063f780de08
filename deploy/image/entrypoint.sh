#!/bin/sh
# Copies the compiled kernels of the image to NUMBA_CACHE_DIR, which numba needs to be writable, and
# becomes the command.
set -eu
kernels=/opt/meshwright/kernels
if [ -n "${NUMBA_CACHE_DIR:-}" ] && [ -d "$kernels" ]; then
    mkdir -p -m 0700 "$NUMBA_CACHE_DIR" 2>/dev/null \
        && cp -R "$kernels/." "$NUMBA_CACHE_DIR/" 2>/dev/null \
        || echo "meshwright: $NUMBA_CACHE_DIR cannot be written. Mount a writable folder there" >&2
fi
exec "$@"
