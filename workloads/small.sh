# For scripts that run all workloads quickly and compare what they print.

# The small size of each program: -n and -i.
small() {
   case $1 in
   adi) echo "-n 48 -i 4" ;;
   adi3) echo "-n 6 -i 3" ;;
   bsort | kmerge) echo "-n 5000 -i 2" ;;
   bt) echo "-n 5 -i 3" ;;
   cg) echo "-n 700 -i 30" ;;
   chase) echo "-n 1000 -i 9" ;;
   cholesky) echo "-n 96 -i 2" ;;
   ep) echo "-n 500 -i 30" ;;
   fft) echo "-n 1024 -i 3" ;;
   gauss) echo "-n 60 -i 2" ;;
   hashserver) echo "-n 1024 -i 3" ;;
   is) echo "-n 5000 -i 3" ;;
   life) echo "-n 64 -i 21" ;;
   lu) echo "-n 6 -i 3" ;;
   matmult) echo "-n 50 -i 2" ;;
   mg) echo "-n 16 -i 3" ;;
   particles) echo "-n 3000 -i 4" ;;
   phases) echo "-n 3 -i 5" ;;
   pingpong) echo "-n 2 -i 50" ;;
   qsort) echo "-n 20000 -i 2" ;;
   sorbyc | sorbyc_inner | sorbyr) echo "-n 50 -i 9" ;;
   sp) echo "-n 7 -i 3" ;;
   stream) echo "-n 5000 -i 4" ;;
   *) echo "small.sh: no small size for $1" >&2; exit 1 ;;
   esac
}

# A line of result without what depends on the number of threads or the last digits.
result_of() {
   sed -E 's/ (threads|seconds|error|residual|page_runs)=[^ ]*//g' <<<"$1"
}
