#!/bin/sh
# Installs the servers that the store's tests start: etcd and ZooKeeper, from Debian's packages.
# Does nothing when all is there.
set -eu

missing=""
[ -x /usr/bin/etcd ] || missing="$missing etcd-server"
[ -e /usr/share/java/zookeeper.jar ] || missing="$missing zookeeper"
command -v java >/dev/null || missing="$missing default-jre-headless"
# The tests cut networks of their own.
command -v ip >/dev/null || missing="$missing iproute2"
[ -n "$missing" ] || exit 0

export DEBIAN_FRONTEND=noninteractive
echo "installing$missing" >&2
apt-get update >/dev/null
# shellcheck disable=SC2086 # a list of packages
apt-get install -y --no-install-recommends $missing >/dev/null
