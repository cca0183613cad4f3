//! The chapters about push receipts against the store in memory.

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use duebox_conformance::{ReceiptHarness, ReceiptSandbox, run_receipts};
use duebox_core::{MemoryPendingReceiptStore, PendingReceiptStore};

struct Memory;

#[async_trait]
impl ReceiptHarness for Memory {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    async fn open_receipts(&self) -> Box<dyn ReceiptSandbox> {
        Box::new(Stored(MemoryPendingReceiptStore::new()))
    }
}

struct Stored(MemoryPendingReceiptStore);

#[async_trait]
impl ReceiptSandbox for Stored {
    fn store(&self) -> Arc<dyn PendingReceiptStore> {
        Arc::new(self.0.clone())
    }

    async fn another(&self) -> Arc<dyn PendingReceiptStore> {
        Arc::new(self.0.clone())
    }
}

fn main() -> ExitCode {
    run_receipts(vec![Arc::new(Memory)])
}
