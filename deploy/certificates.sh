#!/bin/sh
# An authority, and one certificate by it that Dask's scheduler, its workers and Meshwright's share;
# once, into a folder: authority.pem, own.pem, own.key. The authority's key is thrown away.
set -eu
cd "$1"
[ ! -e own.pem ] || exit 0
umask 077
openssl req -x509 -newkey rsa:3072 -nodes -days 3650 -subj "/CN=Meshwright's Dask" \
    -keyout authority.key -out authority.pem
openssl req -newkey rsa:3072 -nodes -subj "/CN=meshwright" -keyout own.key -out own.csr
openssl x509 -req -in own.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 3650 \
    -out made.pem
rm -f authority.key authority.srl own.csr
mv made.pem own.pem
