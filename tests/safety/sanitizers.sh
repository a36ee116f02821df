# Part of tests/safety.sh: programs built with sanitizers run under what Homing loads, and its own C parts are built
# with them. Where no sanitizer is there (the Rust library needs another toolchain for them) Valgrind looks.
sanitizers=
for sanitizer in address,undefined thread undefined; do
  gcc -std=gnu11 -O1 -g -fsanitize=$sanitizer -fno-sanitize-recover=all -o memory-$sanitizer "$root/tests/safety/memory.c" -pthread 2>err &&
    ./memory-$sanitizer >out 2>&1 && cmp -s out memory.out || { echo "SKIPPED sanitizer $sanitizer: $(head -1 err out | tail -1)"; continue; }
  sanitizers="$sanitizers $sanitizer"
  gcc -std=gnu11 -O1 -g -fsanitize=$sanitizer -fno-sanitize-recover=all -w -I"$root/include" -o confined-$sanitizer "$root/tests/safety/confined.c" \
    libhoming.so.0 -pthread '-Wl,-rpath,$ORIGIN' || exit 1
  plain tells.out ./confined
  same "a program built with $sanitizer, linked" tells.out ./confined-$sanitizer
  for under in "${in_set[*]}" "$homing run --quiet --runtime --"; do
    same "a program built with $sanitizer under $under" memory.out $under ./memory-$sanitizer
  done
done

# Our own: the sanitizer's library comes first, as it demands.
mkdir -p sanitized
for sanitizer in $sanitizers; do
  first=$(ldd memory-$sanitizer | awk '/lib[atu]b?san/ {print $3; exit}')
  # That of threads is not ready yet when it makes its own first mapping, by way of rset.c: helgrind looks at that.
  for part in gomp rset; do
    [ $part-$sanitizer != rset-thread ] || continue
    gcc -std=gnu11 -O1 -g -fPIC -fvisibility=hidden -fno-builtin-malloc -fno-builtin-calloc -fsanitize=$sanitizer \
      -fno-sanitize-recover=all -shared -o sanitized/$part-$sanitizer.so "$root/preload/$part.c" -ldl -pthread || exit 1
  done
  [ ! -e sanitized/rset-$sanitizer.so ] || same "preload/rset.c built with $sanitizer" memory.out env ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$first $work/sanitized/rset-$sanitizer.so" ./memory
  if gcc -O1 -fopenmp -o openmp "$root/tests/runtime/forks.c" 2>/dev/null; then
    plain openmp.out ./openmp 50
    same "preload/gomp.c built with $sanitizer" openmp.out env ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=report_bugs=0 \
      LD_PRELOAD="$first $work/sanitized/gomp-$sanitizer.so $work/lib/runtime/libhoming.so" ./openmp 50
  fi
done
echo "ok sanitizers:${sanitizers:- none}"

for tool in memcheck helgrind; do
  for program in './confined' './loads lib/runtime/libhoming.so 20' "env LD_PRELOAD=$sets ./memory"; do
    timeout 300 valgrind -q --trace-children=yes --tool=$tool --error-exitcode=99 $program >out 2>err </dev/null ||
      { head -60 err; fail "$tool finds errors in $program"; }
  done
done
echo 'ok Valgrind finds nothing'
