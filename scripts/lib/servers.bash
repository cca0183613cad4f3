# shellcheck shell=bash
# Part of scripts/engine: what each family of servers wants to be told.
#
# For FAMILY in postgres, mysql, mariadb:
#   FAMILY_init           makes $dir/data
#   FAMILY_command        sets $argv, the server's command line
#   FAMILY_query SQL      runs SQL as the administrator and prints what it returns
#   FAMILY_set_up         makes the database `test`, its user, and sets $url
#
# All of it is loopback only and for throwing away: whoever can reach the port
# may do anything there. Without --fast the engine's own, durable, settings hold.

# The suite gives each test its own database and runs many tests at once.
connections=400

postgres_init() {
    "${as[@]}" "${server%/*}/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync
}

postgres_command() {
    # a fetched tree is without the JIT compiler, and tests gain nothing from it
    argv=("$server" -D "$dir/data" -c listen_addresses=127.0.0.1 -c port="$port" -c unix_socket_directories="$socket"
        -c max_connections="$connections" -c logging_collector=off -c jit=off)
    [ "$fast" = no ] || argv+=(-c fsync=off)
}

postgres_query() {
    "$client" -X -q -A -t -h "$socket" -p "$port" -U postgres -d postgres -c "$1"
}

postgres_set_up() {
    [ -n "$(postgres_query "SELECT 1 FROM pg_database WHERE datname = 'test'")" ] || postgres_query 'CREATE DATABASE test'
    url=postgres://postgres@127.0.0.1:$port/test
}

mysql_init() {
    mysql_paths
    "${as[@]}" "$server" --no-defaults --initialize-insecure --datadir="$dir/data" "${paths[@]}"
}

mariadb_init() {
    # --force: the machine's name need not resolve
    local user=()
    [ ${#as[@]} = 0 ] || user=(--user=nobody)
    "${as[@]}" "$prefix/bin/mariadb-install-db" --no-defaults "${user[@]}" --basedir="$prefix" --datadir="$dir/data" \
        --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve --force
}

# The compiled-in paths are absolute, and wrong in a fetched tree.
mysql_paths() {
    local share=$prefix/share/mariadb
    [ -d "$share/charsets" ] || share=$prefix/share/mysql
    paths=(--basedir="$prefix" --lc-messages-dir="$share" --character-sets-dir="$share/charsets")
    # Debian's mysqld stops if the default directory of this is missing
    [ "$family" != mysql ] || paths+=(--plugin-dir="$prefix/lib/mysql/plugin" --secure-file-priv=NULL)
}

mysql_command() {
    mysql_paths
    argv=("$server" --no-defaults --datadir="$dir/data" "${paths[@]}" --bind-address=127.0.0.1 --port="$port"
        --socket="$socket/mysql.sock" --pid-file="$dir/data/server.pid" --tmpdir="$dir/tmp"
        --max-connections="$connections" --skip-name-resolve)
    [ "$family" != mysql ] || argv+=(--mysqlx=OFF)
    [ "$fast" = no ] || argv+=(--innodb-flush-method=nosync --innodb-flush-log-at-trx-commit=2 --sync-binlog=0
        --skip-log-bin --performance-schema=OFF)
}

mariadb_command() { mysql_command; }

mysql_query() {
    "$client" --no-defaults -uroot -S "$socket/mysql.sock" -N -B -e "$1"
}

mariadb_query() { mysql_query "$1"; }

mysql_set_up() {
    mysql_query "CREATE DATABASE IF NOT EXISTS test;
        CREATE USER IF NOT EXISTS test@'%' IDENTIFIED BY 'test';
        GRANT ALL ON *.* TO test@'%' WITH GRANT OPTION"
    url=mysql://test:test@127.0.0.1:$port/test
}

mariadb_set_up() { mysql_set_up; }
