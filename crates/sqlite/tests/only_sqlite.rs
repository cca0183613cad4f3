//! What the shared suite cannot ask: it is about SQLite and this adapter alone.

mod only_sqlite {
    mod connections;
    mod counts;
    mod files;
    mod full;
    mod isolation;
    mod locks;
    mod migrations;
    mod processes;
    mod receipt_takers;
    mod receipts;
    mod sharing;
    #[cfg(feature = "sqlx")]
    mod sqlx_handle;
    mod support;
    mod transaction;
    mod values;
}
