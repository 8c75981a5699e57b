#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of packages/debian.txt that are missing (Debian 12 or newer; elsewhere prints the list and
# stops). It touches no network when nothing is missing. Usage: tools/setup.sh [--all]; --all adds the optional ones.
set -eu
list="$(dirname "$0")/../packages/debian.txt"

# The wanted packages, one a line; optional ones only with --all.
wanted=$(awk -v all="${1:-}" '
  /^[[:space:]]*(#|$)/ { next }
  all == "--all" || $0 !~ /#[[:space:]]*optional:/ { print $1 }' "$list")

version_of_debian() {  # prints e.g. 12; "rolling" for testing and unstable; nothing elsewhere
  [ -r /etc/os-release ] || return 0
  (
    . /etc/os-release
    [ "${ID:-}" = debian ] && echo "${VERSION_ID:-rolling}"
  ) || true
}

debian=$(version_of_debian)
if [ -z "$debian" ] || { [ "$debian" != rolling ] && [ "${debian%%.*}" -lt 12 ]; }; then
  {
    echo "setup: this system is not Debian 12 or newer, so nothing is installed. Ridge needs:"
    sed -n 's/^\([a-z].*\)/  \1/p' "$list"
    echo "setup: install their like, then run make again with SETUP=no."
  } >&2
  exit 1
fi

# dpkg-query fails for packages it has never heard of, and says the rest on stdout: both are what we want.
# shellcheck disable=SC2086  # one argument per package
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null |
  sed -n 's/^installed //p') || true
missing=""
for package in $wanted; do
  case "
$installed
" in
    *"
$package
"*) ;;
    *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0
echo "setup: installing$missing" >&2

if [ "$(id -u)" -eq 0 ]; then
  as_root=""
elif ! command -v sudo >/dev/null 2>&1; then
  echo "setup: neither root nor sudo. As root, run: apt-get install --no-install-recommends$missing" >&2
  exit 1
elif [ -t 0 ]; then
  as_root="sudo"
else
  as_root="sudo -n"  # nobody is there to type a password
  if ! $as_root true 2>/dev/null; then
    echo "setup: sudo wants a password and there is no terminal to ask on." \
      "As root, run: apt-get install --no-install-recommends$missing" >&2
    exit 1
  fi
fi

# A third-party source that fails to update is no reason to stop: the install below decides.
options="-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
# shellcheck disable=SC2086  # words on purpose
$as_root apt-get $options -q update ||
  echo "setup: apt-get update failed; trying with the package lists at hand" >&2
# shellcheck disable=SC2086
if ! $as_root env DEBIAN_FRONTEND=noninteractive \
  apt-get $options -q -y --no-install-recommends install $missing </dev/null; then
  echo "setup: apt-get could not install:$missing" >&2
  exit 1
fi
