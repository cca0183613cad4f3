pub(crate) mod change;
pub(crate) mod list;
pub(crate) mod migrate;
pub(crate) mod receipts;
pub(crate) mod shell;
pub(crate) mod status;
pub(crate) mod subject;
