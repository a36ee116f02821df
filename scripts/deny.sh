#!/usr/bin/env bash
# Licences, bans and sources of all dependencies (deny.toml), by cargo-deny; installs it first if it is missing. The
# advisory database is not a package and is not fetched here: `cargo deny check advisories` does that where one may.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo deny --version >/dev/null 2>&1; then
  echo "deny: installing cargo-deny"
  # Unoptimised: it runs for a second and builds for minutes.
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    cargo install cargo-deny --locked --quiet
fi
cargo deny --all-features check --hide-inclusion-graph licenses bans sources
