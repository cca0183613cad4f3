//! Delivery into a Maildir (<https://cr.yp.to/proto/maildir.html>).

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Maildir readers may remove what has lain in `tmp/` for so long.
const ABANDONED: Duration = Duration::from_hours(36);

/// A folder in which one file is one message.
#[derive(Debug)]
pub(crate) struct Maildir {
    root: PathBuf,
    delivered: AtomicU64,
    random: u64,
}

impl Maildir {
    /// Opens the folder, which is made if it is not there.
    pub(crate) fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        for name in ["tmp", "new", "cur"] {
            fs::create_dir_all(root.join(name))?;
        }
        sync_directory(&root)?;
        sweep(&root.join("tmp"))?;
        // A process of the same number, in another container, may write here in the same microsecond.
        let random = RandomState::new().hash_one(process::id());
        Ok(Self {
            root,
            delivered: AtomicU64::new(0),
            random,
        })
    }

    /// Delivers one message; it is on the disk, under its final name, when this returns.
    ///
    /// A reader sees the whole message or none. Every delivery gets a name of its own, as the
    /// Maildir rules want: a message that is delivered twice is here twice, and its `Message-ID`
    /// tells. A name made from the row would hide that, which a mail server could not do.
    pub(crate) fn deliver(&self, message: &[u8]) -> io::Result<PathBuf> {
        let name = self.unique_name();
        let temporary = self.root.join("tmp").join(&name);
        let delivered = self.root.join("new").join(&name);
        let mut file = File::create_new(&temporary)?;
        let written = file
            .write_all(message)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&temporary, &delivered));
        if let Err(error) = written {
            // Whether or not this succeeds, a later sweep takes what is left.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        sync_directory(&self.root.join("new"))?;
        Ok(delivered)
    }

    /// The messages that were delivered, in no order, read or unread.
    pub(crate) fn messages(&self) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for name in ["new", "cur"] {
            for entry in fs::read_dir(self.root.join(name))? {
                paths.push(entry?.path());
            }
        }
        Ok(paths)
    }

    fn unique_name(&self) -> String {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        format!(
            "{}.M{}P{}Q{}R{:016x}.signup",
            now.as_secs(),
            now.subsec_micros(),
            process::id(),
            self.delivered.fetch_add(1, Ordering::Relaxed),
            self.random,
        )
    }
}

/// Removes what a delivery left in `tmp/` when it was killed, once it is certain that it was.
fn sweep(tmp: &Path) -> io::Result<()> {
    for entry in fs::read_dir(tmp)? {
        let entry = entry?;
        // Another process may sweep too, or deliver.
        let Ok(modified) = entry.metadata().and_then(|metadata| metadata.modified()) else {
            continue;
        };
        if modified.elapsed().is_ok_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Makes the names in a folder durable. Windows offers no such call and keeps names by itself.
fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(path)?.sync_all()
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs::{self, File};
    use std::thread;
    use std::time::{Duration, SystemTime};

    use super::{ABANDONED, Maildir};
    use crate::tests::Folder;

    #[test]
    fn a_delivered_message_is_in_new_as_written_and_nothing_stays_in_tmp() {
        let folder = Folder::new("delivered");
        let maildir = Maildir::open(&folder.0).expect("opens");
        let path = maildir.deliver(b"Subject: x\r\n\r\n").expect("delivers");
        assert_eq!(path.parent(), Some(folder.0.join("new").as_path()));
        assert_eq!(fs::read(&path).expect("is there"), b"Subject: x\r\n\r\n");
        assert_eq!(
            fs::read_dir(folder.0.join("tmp"))
                .expect("is there")
                .count(),
            0
        );
    }

    #[test]
    fn the_same_message_delivered_by_many_at_once_is_there_as_often() {
        let folder = Folder::new("many");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let maildir = Maildir::open(&folder.0).expect("opens");
                    for _ in 0..25 {
                        maildir.deliver(b"same").expect("delivers");
                    }
                });
            }
        });
        let paths = Maildir::open(&folder.0)
            .expect("opens")
            .messages()
            .expect("lists");
        assert_eq!(paths.into_iter().collect::<HashSet<_>>().len(), 100);
    }

    #[test]
    fn a_message_that_was_read_still_counts() {
        let folder = Folder::new("read");
        let maildir = Maildir::open(&folder.0).expect("opens");
        let path = maildir.deliver(b"x").expect("delivers");
        let seen = folder.0.join("cur/name:2,S");
        fs::rename(path, &seen).expect("moves");
        assert_eq!(maildir.messages().expect("lists"), [seen]);
    }

    #[test]
    fn only_what_was_abandoned_long_ago_is_swept_from_tmp() {
        let folder = Folder::new("swept");
        Maildir::open(&folder.0).expect("opens");
        let (old, young) = (folder.0.join("tmp/old"), folder.0.join("tmp/young"));
        fs::write(&young, b"").expect("writes");
        let long_ago = SystemTime::now() - ABANDONED - Duration::from_mins(1);
        File::create(&old)
            .and_then(|file| file.set_modified(long_ago))
            .expect("writes");
        Maildir::open(&folder.0).expect("opens");
        assert!(!old.exists() && young.exists());
    }

    #[test]
    fn a_failed_delivery_is_an_error_and_leaves_nothing() {
        let folder = Folder::new("failed");
        let maildir = Maildir::open(&folder.0).expect("opens");
        fs::remove_dir(folder.0.join("new")).expect("is empty");
        maildir.deliver(b"x").expect_err("there is no new/");
        assert_eq!(
            fs::read_dir(folder.0.join("tmp"))
                .expect("is there")
                .count(),
            0
        );
    }
}
