# Sourced by run, test, bench and lock: sets $root, and `environment PURPOSE [later]` sets $python.
# With `later`, Horovod is built in the background, and $python has none until it is ready:
# RINGMASTER_LATER then names the file that will hold the path of the Python with Horovod.
#
# The usual start costs one checksum and one read: a file named after the checksum of all
# inputs of the environment holds the path of its Python.  Without that file, or without that
# Python, `installers.prepare` sets it up or reports in one sentence why it cannot.
#
# XDG_CACHE_HOME sets the place (default ~/.cache); RINGMASTER_PYTHON the Python to start from.
# RINGMASTER_WITHOUT_HOROVOD=1 makes, and takes, an environment without Horovod: nothing is built.

# They lead to another Python's modules; those for ranks are a setting of a job.
unset PYTHONHOME PYTHONPATH PYTHONSAFEPATH PYTHONSTARTUP PYTHONUSERBASE PYTHONINSPECT
# Names of files are the same on all computers, whatever the locale is.
export PYTHONUTF8=1

root=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")

case ${XDG_CACHE_HOME:-} in
    /*) ringmaster_cache=$XDG_CACHE_HOME/ringmaster ;;
    *) ringmaster_cache=${HOME:?is not set, so there is no cache folder}/.cache/ringmaster ;;
esac

refuse() {
    printf 'ringmaster: %s\n' "$*" >&2
    exit 1
}

is_ready() {
    { IFS= read -r python <"$ready"; } 2>/dev/null &&
        [ -x "$python" ] && [ -e "${python%/bin/python}/ringmaster.json" ]
}

can_prepare() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

has_venv() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null
}

# 3.11 first: it is what the cluster's Debian 12 runs, and wheels are for one minor version.
# /usr/bin before PATH: an environment outlives the conda or pyenv shell it was made from.
find_python() {
    without_venv=
    for base_python in ${RINGMASTER_PYTHON:-/usr/bin/python3.11 python3.11 /usr/bin/python3.12 \
        python3.12 /usr/bin/python3.13 python3.13 /usr/bin/python3 python3}; do
        can_prepare "$base_python" || continue
        has_venv "$base_python" && return 0
        without_venv=${without_venv:-$base_python}
    done
    return 1
}

python_package() {
    if [ -n "$without_venv" ]; then
        "$without_venv" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'
    elif [ -x /usr/bin/python3 ]; then
        echo python3.11-venv # Ubuntu 22.04: its python3 is 3.10, and 3.11 is installed next to it
    else
        echo python3-venv
    fi
}

base_python() {
    find_python && return
    package=$(python_package)
    if [ "$(id -u)" = 0 ] && [ -z "${RINGMASTER_PYTHON:-}" ] && command -v apt-get >/dev/null; then
        printf 'Installing %s …\n' "$package" >&2
        output=$({ apt-get update -q && DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -q --no-install-recommends "$package"; } </dev/null 2>&1) &&
            find_python && return
        printf '%s\n' "$output" | tail -n 5 >&2
    fi
    refuse "Python 3.11 or newer with its venv module is missing; an administrator" \
        "installs it with: apt-get install $package"
}

environment() {
    inputs=$(cat "$root/pyproject.toml" "$root/installers/constraints.txt" \
        "$root/installers/horovod-tools.in" "$root"/installers/*.py | sha256sum)
    ready=$ringmaster_cache/ready/${inputs%% *}-$1
    horovod=${2:-now}
    if [ "${RINGMASTER_WITHOUT_HOROVOD:-}" = 1 ]; then
        ready=$ready-without-horovod
        horovod=never
    fi
    if ! is_ready; then
        base_python
        # -P: the current folder must not shadow the standard library.
        PYTHONPATH=$root "$base_python" -P -m installers.prepare --horovod "$horovod" \
            --cache "$ringmaster_cache" --ready "$ready" "$1" </dev/null || exit
        if [ "$horovod" = later ] && [ ! -e "$ready" ]; then
            export RINGMASTER_LATER="$ready"
            ready=$ready-without-horovod
        fi
        is_ready || refuse "$ready was written, but its Python does not exist"
    fi
    PATH=${python%/*}:$PATH
    export PATH
}
