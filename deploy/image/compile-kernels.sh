#!/bin/sh
# Compiles the functions that searches, executions and simulations need, into NUMBA_CACHE_DIR.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
model='--layers 4 --hidden 1024 --heads 8 --vocabulary 32000 --batch 32 --seq 1024'
meshwright capture decoder $model --kv-heads 4 --ffn 4096 --gated -o dense.json
meshwright capture decoder $model --ffn 4096 --experts 8 --top-k 2 --expert-ffn 1024 -o experts.json
for name in dense experts; do
    meshwright plan "$name.json" --topology h100-2x8 --budget none -o "$name.plan.json" >/dev/null
    meshwright verify "$name.plan.json" >/dev/null
    meshwright simulate "$name.plan.json" >/dev/null
done
meshwright plan dense.json --topology h100-2x8 --pipeline 2 --budget none -o stages.json >/dev/null
