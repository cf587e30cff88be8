# session.sh - sourced first by the shell tests that run in a private PipeWire. Skips the test if there can be none, and
# sets:
#   top, support  the folder of the source, and in it that of this file
#   build         the folder of the build
#   tmp, session  a folder for the test, and one in it for pipewire-session; both are removed at the end
#   children      processes to end with the test
set -euo pipefail
export LC_ALL=C.UTF-8
top=$(cd "$(dirname "$0")/../.." && pwd) support=$top/tests/support
build=$(cd "${builddir:-.}" && pwd)
export PRIMEKNET_MODELS=${PRIMEKNET_MODELS:-$top/models}

skip() { # reason
    echo "${0##*/}: skipped: $*"
    exit 77
}
"$top/tests/pipewire-session" check || exit 77
/usr/bin/python3 -c 'import numpy' 2> /dev/null || skip "no python3 with numpy"

tmp=$(mktemp -d) session=$tmp/session children=()
cleanup() {
    for child in "${children[@]}"; do
        kill -CONT "$child" 2> /dev/null || true
        kill "$child" 2> /dev/null || true
    done
    [ ! -d "$session" ] || "$top/tests/pipewire-session" stop "$session"
    rm -rf "$tmp" || { sleep 1; rm -rf "$tmp"; } # a browser takes a moment to end
}
trap cleanup EXIT
trap 'exit 143' INT TERM
touch "$tmp/log" "$tmp/told"

ok() { echo "ok: $*"; }
fail() {
    echo "FAIL: $*" >&2
    sed 's/^/  log: /' "$tmp/log" >&2
    tail -n 5 "$tmp/told" | sed 's/^/  told: /' >&2
    tail -n 40 "$session/log/wireplumber" 2> /dev/null | sed 's/^/  manager: /' >&2 || true
    { timeout 5 pw-link -l; timeout 5 pw-metadata; } 2> /dev/null | sed 's/^/  graph: /' >&2 || true
    exit 1
}
wait_for() { # seconds command...
    local tenths=$(($1 * 10))
    shift
    for _ in $(seq $tenths); do
        if "$@" > /dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    fail "gave up waiting for: $*"
}
# The command succeeds, and prints a line that matches, or none. It ends before grep starts: grep ends at the first
# match, and what still printed to it would fail.
prints() { # regular expression, command...
    local text
    text=$("${@:2}") && grep -q -- "$1" <<< "$text"
}
prints_no() {
    local text
    text=$("${@:2}") && ! grep -q -- "$1" <<< "$text"
}
port() { prints "^$2$" pw-link -"$1"; } # i or o, its name
links() { pw-link -l | grep -A1 -x "$1"; } # a port, and the first that it is linked to
connect() { # an output, an input
    wait_for 60 port o "$1"
    wait_for 60 port i "$2"
    pw-link "$1" "$2"
}
graph() { # PipeWire's objects in JSON; pw-dump may list those again that change as it runs, without a type if they go
    pw-dump | /usr/bin/python3 -c 'import json, sys
print(json.dumps([o for o in json.JSONDecoder().raw_decode(sys.stdin.read())[0] if "type" in o]))'
}
status_is() { # what must hold of s, the daemon's status, in Python
    timeout 5 "$build/primeknet" status --json |
        /usr/bin/python3 -c "import json, sys; s = json.load(sys.stdin); sys.exit(not ($1))"
}
