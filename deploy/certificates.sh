#!/bin/sh
# Makes the certificates of a cluster: sh deploy/certificates.sh FOLDER [DAYS]
#
# FOLDER gets ca.pem, certificate.pem and key.pem. Whoever has all three may use the cluster, and run code on it; nobody else can, or can
# read what its processes say. The key that signs is thrown away: for another certificate all are made anew.
set -eu
umask 077
[ "$#" -ge 1 ] || { echo "usage: sh deploy/certificates.sh FOLDER [DAYS]" >&2; exit 2; }
folder=$1
days=${2:-365}
[ ! -e "$folder/key.pem" ] || { echo "$folder/key.pem is there already: remove the folder, or name another" >&2; exit 1; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

cat > "$place/settings" <<'END'
[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[member]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
END

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$place/$1"; }
request() { openssl req -config "$place/settings" -new "$@"; }
key signing.pem
key key.pem
request -x509 -extensions ca -subj "/CN=a Dask cluster" -days "$days" -key "$place/signing.pem" -out "$place/ca.pem"
request -subj "/CN=a process of a Dask cluster" -key "$place/key.pem" -out "$place/request.pem"
openssl x509 -req -in "$place/request.pem" -CA "$place/ca.pem" -CAkey "$place/signing.pem" -CAcreateserial -days "$days" \
    -extfile "$place/settings" -extensions member -out "$place/certificate.pem" 2> "$place/said" || { cat "$place/said" >&2; exit 1; }

mkdir -p "$folder"
mv "$place/ca.pem" "$place/certificate.pem" "$place/key.pem" "$folder"
echo "$folder: ca.pem, certificate.pem and key.pem, good for $days days"
