#!/bin/sh
# What Galera asks of a state transfer (wsrep_sst_method=dyno): a node that joins says where it is to be told
# what it has got; one that sends tells it there, and that is what it had already. The server sends the rest itself.
set -eu
role= at= has= missed=
while [ $# -gt 0 ]; do
    case $1 in
        --role) role=$2; shift ;;
        --datadir) place=$2; shift ;;
        --address) at=$2; shift ;;
        --gtid) has=$2; shift ;;
        --bypass) missed=only ;;
    esac
    shift
done
if [ "$role" = joiner ]; then
    at=${place%/}/dyno.told
    rm -f "$at"
    echo "ready $at"
    while [ ! -e "$at" ]; do kill -0 "$PPID"; sleep 0.02; done
    cat "$at"
    exit 0
fi
if [ -z "$missed" ]; then
    echo "the others keep no longer what this node missed; Dyno sends no whole state" >&2
    exit 1
fi
echo "$has" > "$at.new"
mv "$at.new" "$at"
echo "done $has"
