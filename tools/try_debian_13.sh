#!/usr/bin/env bash
# Runs the demo and some tests on Debian 13 with its Python 3.13, in a folder that debootstrap fills. As root:
#   tools/try_debian_13.sh FOLDER [TEST...]
# What is committed is tried. The folder is kept, so that a second call installs only what changed; 8 GB with CUDA's build.
set -euo pipefail
root="$(realpath -m "${1:?the folder of the system to make}")"
shift
cd "$(dirname "$0")/.."
if [ ! -x "$root/usr/bin/python3" ]; then
  debootstrap --variant=minbase --include=ca-certificates,git,make,python3,python3-venv trixie "$root" http://deb.debian.org/debian
fi
mkdir -p "$root/assaymark"
git archive HEAD | tar --extract --directory "$root/assaymark"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null && # of this network
  chroot "$root" update-ca-certificates >/dev/null
mount --types proc proc "$root/proc"
mount --rbind --make-rslave /dev "$root/dev"
trap 'umount --recursive --lazy "$root/dev" "$root/proc"' EXIT
inside() { chroot "$root" env -i HOME=/root PATH=/usr/bin:/bin LANG=C.UTF-8 TMPDIR=/tmp bash -euc "cd /assaymark; $*"; }
inside make demo
if [ "$#" -gt 0 ]; then
  inside make install
  inside ASSAYMARK_THREADS=1 .venv/bin/python -m pytest -q -p no:cacheprovider -m "'not slow'" "$*"
fi
inside '.venv/bin/python -c "
import platform, importlib.metadata as found
print(platform.python_version(), {name: found.version(name) for name in (\"torch\", \"transformers\", \"numpy\", \"pyarrow\", \"SQLAlchemy\", \"click\")})"'
