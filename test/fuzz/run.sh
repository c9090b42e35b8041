#!/bin/sh
# run.sh PROGRAM NAME SECONDS: lets a fuzz target run from test/fuzz/corpus/NAME on. What it finds on the way, and bytes
# on which it fails, are kept beside the program.
set -eu
found=$1.found
mkdir -p "$found"
exec "$1" -max_total_time="$3" -timeout=20 -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1 \
  -artifact_prefix="$1." "$found" "$(dirname "$0")/corpus/$2"
