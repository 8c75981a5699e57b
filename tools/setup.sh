#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the missing packages of packages/debian.txt on Debian 12 or newer; on other systems it prints the list and
# stops. It uses no network if nothing is missing. Usage: tools/setup.sh [--tests | --all]; --tests adds the packages that
# only tests use, --all these and the optional ones.
set -eu
list="$(dirname "$0")/../packages/debian.txt"

# The packages to install, one per line.
packages=$(awk -v asked="${1:-}" '
  /^[[:space:]]*(#|$)/ { next }
  /#[[:space:]]*optional:/ { if (asked == "--all") print $1; next }
  /#[[:space:]]*tests:/ { if (asked != "") print $1; next }
  { print $1 }' "$list")

version_of_debian() {  # prints 12 or another version, "rolling" for testing and unstable, nothing on other systems
  [ -r /etc/os-release ] || return 0
  (
    . /etc/os-release
    [ "${ID:-}" = debian ] && echo "${VERSION_ID:-rolling}"
  ) || true
}

debian=$(version_of_debian)
if [ -z "$debian" ] || { [ "$debian" != rolling ] && [ "${debian%%.*}" -lt 12 ]; }; then
  {
    echo "setup: this system is not Debian 12 or newer, so setup installs nothing. Ridge needs:"
    sed -n 's/^\([a-z].*\)/  \1/p' "$list"
    echo "setup: install the equivalent packages, then run make again with SETUP=no."
  } >&2
  exit 1
fi

# dpkg-query fails for unknown packages but still prints the others on stdout, which is all that is needed.
# shellcheck disable=SC2086  # one argument per package
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $packages 2>/dev/null |
  sed -n 's/^installed //p') || true
missing=""
for package in $packages; do
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
  echo "setup: you are not root and there is no sudo. As root, run: apt-get install --no-install-recommends$missing" >&2
  exit 1
elif [ -t 0 ]; then
  as_root="sudo"
else
  as_root="sudo -n"  # nobody can type a password
  if ! $as_root true 2>/dev/null; then
    echo "setup: sudo needs a password, but there is no terminal to ask for it." \
      "As root, run: apt-get install --no-install-recommends$missing" >&2
    exit 1
  fi
fi

# Carry on if a third-party source fails to update: the install below decides.
options="-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
# shellcheck disable=SC2086  # several words on purpose
$as_root apt-get $options -q update ||
  echo "setup: apt-get update failed; using the existing package lists" >&2
# shellcheck disable=SC2086
if ! $as_root env DEBIAN_FRONTEND=noninteractive \
  apt-get $options -q -y --no-install-recommends install $missing </dev/null; then
  echo "setup: apt-get could not install:$missing" >&2
  exit 1
fi
