#!/usr/bin/env bash
# `zkServer.sh status`: fails unless this server is a part of a quorum, as that of ZooKeeper does.
[ "$1" = status ] || { echo "only status is served here" >&2; exit 2; }
exec 3<>/dev/tcp/127.0.0.1/2181 || exit 1
printf srvr >&3
timeout 5 cat <&3 | grep -E '^Mode: (leader|follower|standalone)$'
