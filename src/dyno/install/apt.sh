#!/bin/sh
# Installs Debian packages. Packages of servers start a service, at once and at each boot, unless a policy forbids it.
trap 'exit 1' HUP INT TERM
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
fi
apt-get update -qq >/dev/null
apt-get install -y -qq --no-install-recommends "$@" >/dev/null
