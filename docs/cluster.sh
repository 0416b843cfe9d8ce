#!/bin/sh
# The whole way across machines: add nodes, set them up, look whether they can run the example, train
# it on all of them, stop, resume on the first two, export.
#
#   docs/cluster.sh DATA_ROOT HOST HOST …
#
# DATA_ROOT is a folder that this computer and all hosts see; NODE_DATA_ROOT is its path there, if
# another. USER_ON_NODES, IDENTITY, CATALOGUE, PROCESSES (2 on each) and EPOCHS (200) are optional,
# too. The host keys are shown, and accepted by you at the terminal; ACCEPT_KEYS (fingerprints, with
# blanks between) does it unasked. Hosts that were added before are taken as they are.
#
# LOSE is a command that takes the last host away, such as "ssh gpu3 sudo poweroff -f". With it the
# example is trained once more, loses that host in mid-run, and goes on without it.
set -eu

here=$(dirname -- "$(readlink -f -- "$0")")
data_root=${1:?is missing: docs/cluster.sh DATA_ROOT HOST HOST …}
shift
[ $# -ge 2 ] || { echo "Two hosts at least: docs/cluster.sh DATA_ROOT HOST HOST …" >&2; exit 2; }

ringmaster() {
    "$here/../installers/run" --data-root "$data_root" \
        ${CATALOGUE:+--catalogue "$CATALOGUE"} "$@"
}
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
is_known() {
    echo "$known" | python3 -c '
import json, sys
sys.exit(sys.argv[1] not in [node["name"] for node in json.load(sys.stdin)])' "$1"
}
# Until the job has a checkpoint; a job that ends before is shown, and the end of this.
until_it_can_go_on() {
    while told=$(ringmaster job show "$job" --json); do
        case $(echo "$told" | field state) in
            ERROR | LOST | FINISHED | INTERRUPTED) break ;;
        esac
        [ "$(ringmaster job checkpoints "$job" --json)" = "[]" ] || return 0
        sleep 1
    done
    ringmaster job show "$job"
    exit 1
}

known=$(ringmaster node list --json)
number=0 everywhere="" first_two="" placement=""
for host; do
    number=$((number + 1))
    node=node$number
    keys=""
    for key in ${ACCEPT_KEYS:-}; do keys="$keys --accept-key $key"; done
    # shellcheck disable=SC2086 # a list of options
    is_known "$node" || ringmaster node add "$host" --name "$node" $keys \
        ${USER_ON_NODES:+--user "$USER_ON_NODES"} ${IDENTITY:+--identity "$IDENTITY"} \
        ${NODE_DATA_ROOT:+--node-data-root "$NODE_DATA_ROOT"}
    everywhere="$everywhere --on $node=${PROCESSES:-2}"
    [ "$number" -ne 2 ] || first_two=$everywhere
    placement="$placement
[[placement]]
node = \"$node\"
processes = ${PROCESSES:-2}
"
done
ringmaster node provision
ringmaster node list

gallery=$here/../resources/gallery/digits
for kind in dataset loader model; do
    ringmaster "$kind" import "$gallery/$kind" --name digits
done
# The example, on these nodes, and for so long that it is still under way when it is stopped.
job_file=$(mktemp)
trap 'rm -f "$job_file"' EXIT
{
    sed -e '/^\[\[placement\]\]/,$d' -e "s/^epochs = .*/epochs = ${EPOCHS:-200}/" "$gallery/job.toml"
    echo "$placement"
} >"$job_file"
job=$(ringmaster job create "$job_file" --json | field id)
ringmaster job preflight "$job"

ringmaster job start "$job"
until_it_can_go_on
ringmaster job stop "$job" --wait
# shellcheck disable=SC2086 # a list of options
ringmaster job resume "$job" --wait $first_two
ringmaster job export "$job" --checkpoint best --format zip --output "$data_root/$job.zip"

[ -n "${LOSE:-}" ] || exit 0
# shellcheck disable=SC2086 # a list of options
ringmaster job start "$job" --start-over $everywhere
until_it_can_go_on
sh -c "$LOSE"
if ringmaster job wait "$job"; then
    echo "The job ended well without $node, before that was gone." >&2
    exit 1
fi
ringmaster job show "$job"
# shellcheck disable=SC2086 # a list of options
ringmaster job resume "$job" --wait $first_two
