# For scripts that run something in machines of the lab; $homing is the program.

# needs_lab WHAT: ends the script with 0 where no lab can run, and says that WHAT is skipped and why.
needs_lab() {
  local why status
  why=$("$homing" lab setup --check 2>&1)
  status=$?
  [ $status -ne 0 ] || return 0
  [ $status -eq 3 ] || { echo "$why"; exit 1; }
  echo "SKIPPED $1, which needs what is missing here: $why"
  exit 0
}

# lab_job NAME SECONDS [OPTIONS] -- COMMAND...: one more job for the next machine, in lab-jobs.toml. Options are those of
# `homing lab run` for one command (--file, --result, --env, --beside, --observe, --start-on), and --directory, --output and --errors of a job.
lab_seconds=0
lab_job() {
  local name=$1 files= results= env= beside= more= word
  lab_seconds=$((lab_seconds + $2))
  printf '[[job]]\nname = "%s"\ntimeout = "%ss"\n' "$name" "$2" >>lab-jobs.toml
  shift 2
  while [ "$1" != -- ]; do
    word=$(toml "$2")
    case $1 in
    --file) files+="$word, " ;;
    --result) results+="$word, " ;;
    --beside) beside+="$word, " ;;
    --env) env+="$(toml "${2%%=*}") = $(toml "${2#*=}"), " ;;
    --observe | --start-on | --directory | --output | --errors) more+="${1#--} = $word"$'\n' ;;
    *) echo "lab_job: what is $1?"; exit 2 ;;
    esac
    shift 2
  done
  shift
  {
    printf 'files = [%s]\nresults = [%s]\nbeside = [%s]\n' "${files%, }" "${results%, }" "${beside%, }"
    printf 'env = { %s }\n%scommand = [' "${env%, }" "$more"
    for word; do printf '%s, ' "$(toml "$word")"; done
    printf ']\n'
  } >>lab-jobs.toml
}
toml() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//$'\n'/\\n}"
}

# lab_jobs OPTIONS...: runs the jobs in turn in one machine; what became of each is in lab-jobs.json. 0 if all ended with 0.
lab_jobs() {
  local status
  timeout -k 5 $((lab_seconds + 300)) "$homing" lab batch --summary lab-jobs.json "$@" lab-jobs.toml
  status=$?
  rm lab-jobs.toml
  lab_seconds=0
  return $status
}
# The machine of most tests: four nodes of two CPUs, whose kernel leaves pages where they are.
lab_quiet=(--nodes 4 --cpus 8 --balancing off --thp never)
# lab_status NAME: the status of a job of the last machine; nothing if it has none.
lab_status() {
  python3 -c 'import json, sys
print(*(job["status"] for job in json.load(open("lab-jobs.json"))["jobs"] if job["name"] == sys.argv[1] and job["status"] is not None))' "$1"
}
