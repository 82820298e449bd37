#!/bin/sh
# Has schemathesis (from PyPI, in a directory of its own) try to break the HTTP API of a node that is
# started for it: no answer may be a 5xx, or one that the OpenAPI document does not have.
#   scripts/check-http-api.sh [PROGRAM]
set -eu

program=${1:-target/debug/sardonyx}
dir=$(mktemp -d)
node=""
trap '[ -z "$node" ] || kill "$node"; rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet schemathesis

"$program" start --peers 3 --store "embedded:$dir/store" --http 127.0.0.1:0 --json >"$dir/said" &
node=$!
url=""
while [ -z "$url" ]; do
    sleep 0.2
    url=$(sed -n 's/.*"event":"http".*"url":"\([^"]*\)".*/\1/p' "$dir/said")
done
checks=not_a_server_error,status_code_conformance,content_type_conformance
checks=$checks,response_schema_conformance,response_headers_conformance
# Streams of events have no end to wait for, unless one is asked for. What else `seconds` may be, the
# tests of the API try.
cat >"$dir/schemathesis.toml" <<'END'
[[operations]]
include-path = ["/v1/events", "/v1/log/follow"]
parameters = { "query.seconds" = 1 }
generation = { max-examples = 10 }
END
# It keeps what it found where it runs.
cd "$dir"
"$dir/venv/bin/schemathesis" --config-file "$dir/schemathesis.toml" run "${url}v1/openapi.json" \
    --checks "$checks" --max-examples 100 --request-timeout 70
