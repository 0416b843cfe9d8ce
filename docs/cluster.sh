#!/bin/sh
# The whole way across machines: add nodes, set them up, train the example on all of them, stop,
# resume on the first two, export.
#
#   docs/cluster.sh DATA_ROOT HOST HOST …
#
# DATA_ROOT is a folder that this computer and all hosts see; NODE_DATA_ROOT is its path there, if
# another. USER_ON_NODES, IDENTITY and PROCESSES are optional, too. The host keys are shown, and
# accepted by you at the terminal; ACCEPT_KEYS (fingerprints, with blanks between) does it unasked.
set -eu

data_root=$1
shift
ringmaster() {
    "$(dirname -- "$(readlink -f -- "$0")")/../installers/run" --data-root "$data_root" \
        ${CATALOGUE:+--catalogue "$CATALOGUE"} "$@"
}
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

number=0
everywhere="" first_two=""
for host in "$@"; do
    number=$((number + 1))
    keys=""
    for key in ${ACCEPT_KEYS:-}; do keys="$keys --accept-key $key"; done
    # shellcheck disable=SC2086 # a list of options
    ringmaster node add "$host" --name "node$number" $keys \
        ${USER_ON_NODES:+--user "$USER_ON_NODES"} ${IDENTITY:+--identity "$IDENTITY"} \
        ${NODE_DATA_ROOT:+--node-data-root "$NODE_DATA_ROOT"}
    everywhere="$everywhere --on node$number=${PROCESSES:-2}"
    [ "$number" -gt 2 ] || first_two=$everywhere
done
ringmaster node provision
ringmaster node list

gallery=$(dirname -- "$(readlink -f -- "$0")")/../resources/gallery/digits
for kind in dataset loader model; do
    ringmaster "$kind" import "$gallery/$kind" --name digits
done
job=$(ringmaster job create "$gallery/job.toml" --json | field id)

# shellcheck disable=SC2086 # lists of options
{
    ringmaster job start "$job" $everywhere
    until [ "$(ringmaster job show "$job" --json | field step)" -gt 10 ]; do sleep 1; done
    ringmaster job stop "$job" --wait
    ringmaster job resume "$job" --wait $first_two
}
ringmaster job export "$job" --checkpoint best --format zip --output "$data_root/$job.zip"
