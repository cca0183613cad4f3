# shellcheck shell=bash
# Part of scripts/engine: where the programs of an engine come from.
#
# An engine that the machine has installed is used as it is. Any other is
# fetched from a Debian suite into a tree of its own under $cache: apt resolves
# the package as if nothing were installed, the archives are unpacked without
# running their scripts, and each program starts through the tree's own loader
# and C library. Nothing is installed, and neither root nor a container is needed.

# Sets $family, $suite, $packages, $tree, and $own: may it be the machine's own?
select_engine() {
    engine=$1 own=no
    case $engine in
    postgres) family=postgres suite=bookworm packages=(postgresql) own=yes ;;
    postgres-17) family=postgres suite=trixie packages=(postgresql-17) ;;
    postgres-18) family=postgres suite=forky packages=(postgresql-18) ;;
    mariadb) family=mariadb suite=bookworm packages=(mariadb-server-core mariadb-client-core) own=yes ;;
    mariadb-11.8) family=mariadb suite=trixie packages=(mariadb-server-core mariadb-client-core) ;;
    mysql) family=mysql suite=sid packages=(mysql-server-core mysql-client-core) own=yes ;;
    pgbouncer) family=pgbouncer suite=bookworm packages=(pgbouncer) own=yes ;; # to `prepare` only
    *) die "unknown engine '$engine'; the engines are: ${engines[*]}" ;;
    esac
    tree=$cache/$engine-$suite
}

# Sets $server and $client, and $prefix, for the programs below ROOT (the
# machine's own below ''). Fails if any is missing.
locate() {
    local root=$1
    prefix=$root/usr
    case $family in
    postgres)
        local bin
        bin=$(postgres_bin "$root")
        server=$bin/postgres client=$bin/psql
        [ -x "$bin/initdb" ] || return 1
        ;;
    mariadb)
        server=$prefix/sbin/mariadbd client=$prefix/bin/mariadb
        [ -x "$prefix/bin/mariadb-install-db" ] || return 1
        ;;
    mysql)
        server=$prefix/sbin/mysqld client=$prefix/bin/mysql
        # MariaDB installs itself under this name too
        [ -x "$server" ] && ! "$server" --version 2>/dev/null | grep -qi mariadb || return 1
        ;;
    pgbouncer)
        server=$prefix/sbin/pgbouncer client=$server
        ;;
    esac
    [ -x "$server" ] && [ -x "$client" ]
}

# Debian keeps each major version in a directory of its own and off the PATH.
postgres_bin() {
    local root=$1 newest
    newest=$(find "$root/usr/lib/postgresql" -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
    [ -n "$newest" ] || newest=$(dirname "$(readlink -f "$(type -P postgres)")")
    printf '%s' "$newest"
}

# Finds the engine's programs, and fetches them if that is what it takes.
prepare() {
    if [ "$own" = yes ] && locate ''; then return; fi
    mkdir -p "$cache" || die "cannot write to $cache; set DUEBOX_ENGINE_CACHE"
    # a subshell, so that its exit lets go of the lock; not in an `||`, where bash
    # would go on after an error
    (
        flock 9
        [ -e "$tree/.ready" ] || fetch_tree
    ) 9>"$cache/.$engine.lock"
    locate "$tree" || die "$tree is incomplete; delete it and try again"
}

# The archive that apt is configured with, which has the other suites too.
archive() {
    local codename
    codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
    apt-get update --print-uris 2>/dev/null |
        sed -n "s|^'\(.*\)/dists/$codename/InRelease' .*|\1|p" | head -n 1
}

# apt-get with a state of its own, in which no package is installed.
apt() {
    local state=$new/.apt
    apt-get -qq -o Dir::State="$state" -o Dir::State::status="$state/status" -o Dir::Cache="$state" \
        -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
        -o APT::Install-Recommends=false -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any \
        -o Acquire::Languages=none -o Acquire::Retries=3 \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::IndexTargets::deb::CNF::DefaultEnabled=false "$@"
}

# What only maintainer scripts, administration and PostgreSQL's JIT compiler
# need; leaving it out halves the download.
unneeded='perl|libperl|lib[a-z0-9-]*-perl|libgdbm|libdb5|libllvm|libz3|locales|libc-l10n|systemd|libsystemd-shared'
unneeded+='|sysvinit|adduser|passwd|login|procps|libproc2|debconf|openssl=|postgresql-common|ssl-cert|ucf'
unneeded+='|libpam-modules|libsemanage|libsepol'

fetch_tree() {
    local uri list keyring=/usr/share/keyrings/debian-archive-keyring.gpg options=''
    type -P apt-get >/dev/null || die "$engine is not installed, and fetching it needs apt-get"
    uri=${DUEBOX_ENGINE_ARCHIVE:-$(archive)}
    [ -n "$uri" ] || die "apt is configured with no archive of this Debian release; set DUEBOX_ENGINE_ARCHIVE"
    new=$tree.new
    rm -rf "$tree" "$new"
    trap 'rm -rf "$new"' EXIT
    mkdir -p "$new"/.apt/{lists/partial,archives/partial} "$new"/usr/{bin,sbin,lib,lib64}
    ln -s usr/bin usr/sbin usr/lib usr/lib64 "$new"
    : >"$new/.apt/status"
    [ ! -e "$keyring" ] || options="[signed-by=$keyring]"
    echo "deb $options $uri $suite main" >"$new/.apt/sources.list"

    log "$engine: fetching the package index of $suite"
    apt update >&2 || die "no package index of Debian $suite at $uri"
    list=$(apt -s install "${packages[@]}" | sed -nE 's/^Inst ([^ ]+) \(([^ ]+) .*/\1=\2/p' | grep -vE "^($unneeded)") ||
        die "Debian $suite at $uri has no ${packages[*]}"
    log "$engine: downloading $(wc -l <<<"$list") packages"
    # shellcheck disable=SC2086 # one word a package
    (cd "$new/.apt/archives" && apt download $list >&2) || die "a download from $uri failed"
    unpack
    rm -rf "$new/.apt"
    wrap_programs
    : >"$new/.ready"
    mv "$new" "$tree"
    trap - EXIT
}

unpack() {
    local archive
    for archive in "$new"/.apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$archive" | tar -x -C "$new" --no-same-owner --keep-directory-symlink \
            --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale' \
            --exclude='./usr/share/info' --exclude='./usr/share/perl' \
            --exclude='./usr/lib/postgresql/*/lib/bitcode' --exclude='*/llvmjit*' \
            --exclude='./usr/bin/mysql?*' --exclude='./usr/bin/myisam*' --exclude='*_client.so'
    done
}

# Program X becomes X.real beside a script X that starts it by the tree's loader.
wrap_programs() {
    local loader lib file
    loader=$(cd "$new" && find -L usr/lib usr/lib64 -maxdepth 1 -name 'ld-linux*.so.*' | head -n 1)
    lib=$(cd "$new" && find usr/lib -maxdepth 2 -name libc.so.6 -printf '%h\n' | head -n 1)
    [ -n "$loader" ] && [ -n "$lib" ] || die "$engine was unpacked without a C library"
    for file in "$new"/usr/{bin,sbin,lib/postgresql/*/bin}/{postgres,initdb,psql,mysqld,mysql,mariadbd,mariadb,my_print_defaults,pgbouncer}; do
        [ -f "$file" ] && [ ! -L "$file" ] || continue
        "$new/$loader" --library-path "$new/$lib" --list "$file" >/dev/null || die "${file##*/} lacks a library"
        mv "$file" "$file.real"
        file=${file#"$new"}
        cat >"$new$file" <<WRAPPER
#!/bin/sh
exec "$tree/$loader" --argv0 "$tree$file" --library-path "$tree/$lib" "$tree$file.real" "\$@"
WRAPPER
        chmod 755 "$new$file"
    done
}
