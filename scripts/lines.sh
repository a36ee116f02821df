#!/usr/bin/env bash
# No tracked line of Rust, C, assembly or TypeScript is longer than 120 columns; no file of a crate is ignored by git,
# since what is not committed cannot be built from a clone.
set -euo pipefail
cd "$(dirname "$0")/.."

if git ls-files -z -- '*.rs' '*.c' '*.h' '*.s' '*.ts' | LC_ALL=C.UTF-8 xargs -0 grep -nHE '^.{121}'; then
  echo "lines: these are longer than 120 columns: wrap them" >&2
  exit 1
fi

if git ls-files --others --ignored --exclude-standard -- crates | grep .; then
  echo "lines: git ignores these, so that a clone lacks them: change .gitignore, or keep them out of crates/" >&2
  exit 1
fi
