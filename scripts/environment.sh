# shellcheck shell=bash
# Shell code that the scripts share; sourced by them, in the root of the repository. Keeps .venv up to date.

# Says in one line what went wrong, and ends the script.
fail() {
    echo "scripts/${0##*/}: $1" >&2
    exit "${2:-1}"
}

# Runs a command under a name; if it fails, says which one it was and ends with its exit code.
step() {
    local name=$1
    shift
    echo "== $name"
    "$@" || fail "the step '$name' failed with exit code $?" $?
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

# Prints the Python to make .venv with: $PYTHON, or the first of the usual names that is 3.10 or newer.
find_python() {
    local candidate
    if [[ -n ${PYTHON:-} ]]; then
        is_new_enough "$PYTHON" || fail "PYTHON=$PYTHON is not a Python of 3.10 or newer"
        echo "$PYTHON"
        return
    fi
    for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
        if is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.10 or newer is needed and none was found; name one with PYTHON=/path/to/python3"
}

# Makes .venv where there is none, and installs rocktools into it, editable, with the extras named by $1 (core: none).
# What is installed is installed again only when pyproject.toml has changed.
prepare_environment() {
    local extras=$1 python requirement stamp wanted
    if [[ ! -d .venv ]]; then
        python=$(find_python) || exit $?
        echo "== making .venv with $("$python" --version)"
        if ! "$python" -m venv .venv; then
            rm -rf .venv
            fail "$python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv"
        fi
    fi
    is_new_enough .venv/bin/python || fail ".venv has no Python of 3.10 or newer; remove the folder and start again"

    requirement=.
    [[ $extras == core ]] || requirement=".[$extras]"
    stamp=.venv/installed-$extras
    wanted=$(cksum <pyproject.toml)
    if [[ ! -f $stamp || $(<"$stamp") != "$wanted" ]]; then
        echo "== installing rocktools ($extras)"
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable "$requirement" ||
            fail "could not install rocktools and what it depends on (see above)"
        echo "$wanted" >"$stamp"
    fi
}
