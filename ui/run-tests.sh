#!/usr/bin/env bash
# Tests the report page: types, unit tests, the committed copy against a build, and the page in headless Chromium.
# HOMING_UI_SHOTS=DIR keeps the screenshots. Without Node or Chromium, what cannot run is skipped, loudly and counted.
set -uo pipefail
cd "$(dirname "$0")"
passed=0 failed=0 skipped=0

part() {
  local name=$1
  shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "page: $name FAILED" >&2; fi
}

finish() {
  echo "page: $passed parts passed, $failed failed, $skipped skipped"
  exit $((failed > 0))
}

if ! command -v npm >/dev/null; then
  echo "page: SKIPPED everything: there is no npm (install nodejs and npm)" >&2
  skipped=4
  finish
fi

# node_modules is as good as its lock file.
if ! cmp -s package-lock.json node_modules/.homing-lock; then
  npm ci --silent || { echo "page: npm ci failed" >&2; exit 1; }
  cp package-lock.json node_modules/.homing-lock
fi

same() {
  local page
  for page in report.html study.html diff.html; do
    cmp "dist/$page" "../crates/homing-cli/assets/$page" ||
      { echo "page: crates/homing-cli/assets/$page is not what the sources build: run 'make ui' and commit it" >&2; return 1; }
  done
}

part types-and-build npm run --silent page
part committed-copy same
part unit npx vitest run tests/unit
browser=${HOMING_CHROMIUM:-/usr/bin/chromium}
if [ -x "$browser" ]; then
  part browser npx vitest run tests/browser
else
  echo "page: SKIPPED the browser tests: there is no $browser (install chromium, or name one in HOMING_CHROMIUM)" >&2
  skipped=$((skipped + 1))
fi
finish
