#!/bin/sh
# Installs the servers that tests start, from Debian's packages: etcd and ZooKeeper for the store's,
# NATS for the queues', Chromium for the dashboard's; and jq and curl, which the guide uses. With an argument
# (store, nats, browser or guide) only those. Does nothing when all is there.
set -eu

missing=""
if [ "${1:-store}" = store ]; then
    [ -x /usr/bin/etcd ] || missing="$missing etcd-server"
    [ -e /usr/share/java/zookeeper.jar ] || missing="$missing zookeeper"
    command -v java >/dev/null || missing="$missing default-jre-headless"
    # The tests cut networks of their own.
    command -v ip >/dev/null || missing="$missing iproute2"
fi
if [ "${1:-nats}" = nats ]; then
    command -v nats-server >/dev/null || missing="$missing nats-server"
fi
if [ "${1:-browser}" = browser ]; then
    command -v chromium >/dev/null || missing="$missing chromium"
fi
if [ "${1:-guide}" = guide ]; then
    command -v jq >/dev/null || missing="$missing jq"
    command -v curl >/dev/null || missing="$missing curl"
    command -v ip >/dev/null || missing="$missing iproute2"
    [ -x /usr/bin/etcd ] || missing="$missing etcd-server"
    command -v nats-server >/dev/null || missing="$missing nats-server"
fi
[ -n "$missing" ] || exit 0

export DEBIAN_FRONTEND=noninteractive
echo "installing$missing" >&2
apt-get update >/dev/null
# shellcheck disable=SC2086 # a list of packages
apt-get install -y --no-install-recommends $missing >/dev/null
