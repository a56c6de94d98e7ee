#!/usr/bin/env bash
# Makes the certificates of test_tls.py: an authority, a process of the job at 127.0.0.1, one at another host, and a
# stranger who is his own authority. They are good for a hundred years, and for nothing but the tests.
set -euo pipefail
cd "$(dirname "$0")"
key="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
for name in authority stranger; do
    openssl req -x509 $key -days 36500 -subj "/CN=$name" -keyout $name.key -out $name.pem
done
for item in job:IP:127.0.0.1,DNS:localhost elsewhere:DNS:other.example; do
    name=${item%%:*}
    openssl req $key -subj "/CN=$name" -keyout $name.key -out $name.csr
    openssl x509 -req -in $name.csr -days 36500 -CA authority.pem -CAkey authority.key -CAcreateserial \
        -extfile <(printf "subjectAltName=%s" "${item#*:}") -out $name.pem
done
rm ./*.csr ./*.srl authority.key
