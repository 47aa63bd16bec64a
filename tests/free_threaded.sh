#!/bin/sh
# Build CPython without the GIL from the source package of a Debian release.
#
#     sh tests/free_threaded.sh PREFIX [SUITE [PACKAGE]]
#     sh tests/free_threaded.sh /opt/python3.14t sid python3.14
#     sh tests/free_threaded.sh /opt/python3.14t - /path/to/python3.14_3.14.7.orig.tar.xz
#     CONFIGURE=--with-thread-sanitizer sh tests/free_threaded.sh /opt/python3.14t-tsan
#
# Debian has no binary package of this interpreter. apt downloads the source from the
# machine's mirror with a temporary configuration, which changes neither the installed
# packages nor the list of sources. The build takes about ten minutes on two cores.
# Debian's patches are left out, because they move site-packages to a folder that venv
# does not search. On other systems, `uv python install 3.14t` and `pyenv install 3.14t`
# give the same interpreter.
#
# The build needs build-essential, dpkg-dev and headers of zlib, bzip2, lzma, OpenSSL,
# libffi and SQLite: apt-get install build-essential dpkg-dev zlib1g-dev libbz2-dev
# liblzma-dev libssl-dev libffi-dev libsqlite3-dev
set -eu

prefix=${1:?which folder to install into}
suite=${2:-sid}
package=${3:-python3.14}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $package in
*.tar.*)
    tarball=$package
    ;;
*)
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' |
        grep -m 1 '/debian$' || true)
    if [ -z "$mirror" ]; then
        echo "apt knows no Debian mirror; pass a tarball of CPython instead" >&2
        exit 1
    fi
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    echo "deb-src [signed-by=$keys] $mirror $suite main" >"$work/sources.list"
    cat >"$work/apt.conf" <<END
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$work/lists";
Dir::Cache "$work/cache";
END
    export APT_CONFIG="$work/apt.conf"
    apt-get update
    (cd "$work" && apt-get source --download-only "$package")
    tarball=$(echo "$work/${package}_"*.orig.tar.*)
    ;;
esac

mkdir "$work/source"
tar -xf "$tarball" -C "$work/source" --strip-components=1
cd "$work/source"
./configure --disable-gil --disable-test-modules --prefix="$prefix" ${CONFIGURE:-}
make -j "$(nproc)"
make install
"$prefix/bin/python3" -c 'import sys; print(sys.version); assert not sys._is_gil_enabled()'
