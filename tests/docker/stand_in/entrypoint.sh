#!/usr/bin/env bash
# Writes the settings from the environment, as the official image's start script does, and becomes the server.
set -eu
{
    echo "dataDir=/data"
    echo "dataLogDir=/datalog"
    echo "tickTime=$ZOO_TICK_TIME"
    echo "initLimit=$ZOO_INIT_LIMIT"
    echo "syncLimit=$ZOO_SYNC_LIMIT"
    echo "maxClientCnxns=$ZOO_MAX_CLIENT_CNXNS"
    echo "autopurge.snapRetainCount=$ZOO_AUTOPURGE_SNAPRETAINCOUNT"
    echo "autopurge.purgeInterval=$ZOO_AUTOPURGE_PURGEINTERVAL"
    echo "admin.enableServer=$ZOO_ADMINSERVER_ENABLED"
    echo "4lw.commands.whitelist=$ZOO_4LW_COMMANDS_WHITELIST"
    if [ -z "$ZOO_SERVERS" ]; then
        echo "clientPort=2181"
    fi
    for server in $ZOO_SERVERS; do
        echo "$server"
    done
} > "$ZOO_CONF_DIR/zoo.cfg"
[ -e /data/myid ] || echo "$ZOO_MY_ID" > /data/myid
exec java -Xmx"$ZK_SERVER_HEAP"m $SERVER_JVMFLAGS -cp '/usr/share/java/*' \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$ZOO_CONF_DIR/zoo.cfg"
