//! A full disk.
//!
//! As root, files are on a small file system in memory, and another file takes
//! all that is left of it. Otherwise each process limits its own pages by
//! `PRAGMA max_page_count`, while a file says so.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use duebox_sqlite::SqliteDatabase;

/// The disk that databases are on.
pub(crate) struct Disk {
    pub(crate) folder: PathBuf,
    mounted: bool,
}

impl Disk {
    /// A disk of so many MiB: enough for a history, and quickly filled.
    pub(crate) fn new(folder: PathBuf, size: u32) -> std::io::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        let mounted = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={size}m"),
                "duebox-faults",
            ])
            .arg(&folder)
            .stderr(std::process::Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        Ok(Self { folder, mounted })
    }

    pub(crate) const fn how(&self) -> &'static str {
        if self.mounted {
            "a small file system that is filled"
        } else {
            "PRAGMA max_page_count, since there is no right to mount"
        }
    }

    pub(crate) const fn is_mounted(&self) -> bool {
        self.mounted
    }

    /// The file whose presence says that the database may not grow, where that
    /// is all there is.
    pub(crate) fn sign(&self) -> Option<PathBuf> {
        (!self.mounted).then(|| self.folder.join("full"))
    }

    pub(crate) fn fill(&self) -> std::io::Result<()> {
        let mut file = File::create(self.folder.join("full"))?;
        if self.mounted {
            let block = vec![0; 4096];
            while file.write_all(&block).is_ok() {}
        }
        Ok(())
    }

    pub(crate) fn empty(&self) {
        // It is not there if it was not filled.
        let _ = std::fs::remove_file(self.folder.join("full"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            // A handle closes on a thread of its own, so a file may be open for a moment yet.
            let _ = Command::new("umount")
                .arg("--lazy")
                .arg(&self.folder)
                .status();
        }
    }
}

/// Limits this process's database while the file is there.
pub(crate) async fn obey(sign: PathBuf, db: SqliteDatabase) {
    let mut was = false;
    loop {
        let is = Path::exists(&sign);
        if is != was {
            let pages = if is { 1 } else { 4_294_967_294_u32 };
            let limit = format!("PRAGMA max_page_count = {pages}");
            // 1 means what it has now.
            let set = db.with_connection(move |conn| conn.execute_batch(&limit));
            if matches!(set.await, Ok(Ok(()))) {
                was = is;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
