//! The error numbers, by their names without `ER_`.
//!
//! <https://dev.mysql.com/doc/mysql-errors/9.0/en/server-error-reference.html>,
//! <https://mariadb.com/kb/en/mariadb-error-code-reference/>

pub(super) const CHECKREAD: u16 = 1020;
pub(super) const DUP_KEY: u16 = 1022;
pub(super) const CON_COUNT_ERROR: u16 = 1040;
pub(super) const DBACCESS_DENIED_ERROR: u16 = 1044;
pub(super) const ACCESS_DENIED_ERROR: u16 = 1045;
pub(super) const NO_DB_ERROR: u16 = 1046;
// What a node of a Galera cluster says while it has no part in it.
pub(super) const UNKNOWN_COM_ERROR: u16 = 1047;
pub(super) const BAD_NULL_ERROR: u16 = 1048;
pub(super) const BAD_DB_ERROR: u16 = 1049;
pub(super) const SERVER_SHUTDOWN: u16 = 1053;
pub(super) const BAD_FIELD_ERROR: u16 = 1054;
pub(super) const DUP_ENTRY: u16 = 1062;
pub(super) const PARSE_ERROR: u16 = 1064;
pub(super) const RECORD_FILE_FULL: u16 = 1114;
pub(super) const HOST_IS_BLOCKED: u16 = 1129;
pub(super) const HOST_NOT_PRIVILEGED: u16 = 1130;
pub(super) const WRONG_VALUE_COUNT_ON_ROW: u16 = 1136;
pub(super) const TABLEACCESS_DENIED_ERROR: u16 = 1142;
pub(super) const COLUMNACCESS_DENIED_ERROR: u16 = 1143;
pub(super) const NO_SUCH_TABLE: u16 = 1146;
pub(super) const NET_PACKET_TOO_LARGE: u16 = 1153;
pub(super) const KEY_DOES_NOT_EXITS: u16 = 1176;
pub(super) const NEW_ABORTING_CONNECTION: u16 = 1184;
pub(super) const TOO_MANY_USER_CONNECTIONS: u16 = 1203;
pub(super) const LOCK_WAIT_TIMEOUT: u16 = 1205;
pub(super) const LOCK_DEADLOCK: u16 = 1213;
pub(super) const NO_REFERENCED_ROW: u16 = 1216;
pub(super) const ROW_IS_REFERENCED: u16 = 1217;
pub(super) const USER_LIMIT_REACHED: u16 = 1226;
pub(super) const WARN_DATA_OUT_OF_RANGE: u16 = 1264;
pub(super) const TRUNCATED_DATA: u16 = 1265;
pub(super) const OPTION_PREVENTS_STATEMENT: u16 = 1290;
pub(super) const TRUNCATED_WRONG_VALUE: u16 = 1292;
pub(super) const UNSUPPORTED_PS: u16 = 1295;
pub(super) const WARN_ALLOWED_PACKET_OVERFLOWED: u16 = 1301;
pub(super) const QUERY_INTERRUPTED: u16 = 1317;
pub(super) const NO_DEFAULT_FOR_FIELD: u16 = 1364;
pub(super) const TRUNCATED_WRONG_VALUE_FOR_FIELD: u16 = 1366;
pub(super) const PS_MANY_PARAM: u16 = 1390;
pub(super) const DATA_TOO_LONG: u16 = 1406;
pub(super) const ROW_IS_REFERENCED_2: u16 = 1451;
pub(super) const NO_REFERENCED_ROW_2: u16 = 1452;
pub(super) const MAX_PREPARED_STMT_COUNT_REACHED: u16 = 1461;
pub(super) const NEED_REPREPARE: u16 = 1615;
pub(super) const BINLOG_STMT_MODE_AND_ROW_ENGINE: u16 = 1665;
pub(super) const ACCESS_DENIED_NO_PASSWORD_ERROR: u16 = 1698;
pub(super) const CANT_EXECUTE_IN_READ_ONLY_TRANSACTION: u16 = 1792;
pub(super) const READ_ONLY_MODE: u16 = 1836;

// Of MySQL alone.
pub(super) const QUERY_TIMEOUT: u16 = 3024;
pub(super) const TRANSACTION_ROLLBACK_DURING_COMMIT: u16 = 3101;
pub(super) const INVALID_JSON_TEXT: u16 = 3140;
pub(super) const LOCK_NOWAIT: u16 = 3572;
pub(super) const CHECK_CONSTRAINT_VIOLATED: u16 = 3819;
pub(super) const IMPOSSIBLE_STRING_CONVERSION: u16 = 3988;
pub(super) const CLIENT_INTERACTION_TIMEOUT: u16 = 4031;

// Of MariaDB alone; MySQL means something else by the last.
pub(super) const CONNECTION_KILLED: u16 = 1927;
pub(super) const STATEMENT_TIMEOUT: u16 = 1969;
pub(super) const CONSTRAINT_FAILED: u16 = 4025;
