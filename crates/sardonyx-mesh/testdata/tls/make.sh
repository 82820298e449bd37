#!/bin/sh
# Certificates for the tests of the mesh, good for a hundred years. They protect nothing.
set -e
ca() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj "/CN=$1" -keyout "$1.key" -out "$1.pem"; }
leaf() { # name, authority, alternative name, more arguments
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr"
  printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\n' "$3" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -extfile "$1.ext" -out "$1.pem" $4
  rm "$1.csr" "$1.ext"
}
ca ca
ca other
leaf node ca "IP:127.0.0.1,DNS:localhost" "-days 36500"
leaf elsewhere ca "IP:10.9.8.7" "-days 36500"
leaf stranger other "IP:127.0.0.1" "-days 36500"
leaf expired ca "IP:127.0.0.1" "-days 0"
rm -f ./*.srl ca.key other.key other.pem
