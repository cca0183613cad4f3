//! Inputs made at random from a corpus, and what must hold of each.
//!
//! A target looks at one text and says what is wrong with how it was read. A panic is wrong too. The
//! corpus is one folder a target; what a run finds is written there, and replayed by every test from
//! then on.

mod mutate;
mod names;
mod placeholders;
mod tickets;
mod times;
mod urls;

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;

/// What must hold of a text; an error says what does not.
type Look = fn(&str) -> Result<(), String>;

/// Something that reads texts of strangers.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder.
    pub name: &'static str,
    look: Look,
    /// What texts are made of, beside pieces of the corpus.
    words: &'static [&'static str],
}

/// All targets.
pub const TARGETS: [Target; 5] = [
    placeholders::TARGET,
    times::TARGET,
    names::TARGET,
    tickets::TARGET,
    urls::TARGET,
];

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Target").field(&self.name).finish()
    }
}

impl Target {
    /// The target of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Looks at one text.
    ///
    /// # Errors
    ///
    /// What is wrong with how it is read.
    pub fn look(&self, text: &str) -> Result<(), String> {
        catch_unwind(AssertUnwindSafe(|| (self.look)(text)))
            .unwrap_or_else(|_| Err("it panicked".to_owned()))
    }

    /// The folder of its corpus.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(self.name)
    }

    /// The texts of its corpus.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn corpus(&self) -> io::Result<Vec<String>> {
        let mut paths = fs::read_dir(self.folder())?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        paths.iter().map(fs::read_to_string).collect()
    }

    /// Looks at texts made from the corpus until the time or the number is up;
    /// returns how many there were.
    ///
    /// # Errors
    ///
    /// The first text that something is wrong with, after it was made as short
    /// as it could be.
    pub fn run(&self, seed: u64, texts: u64, time: Duration) -> io::Result<Result<u64, Finding>> {
        let corpus = self.corpus()?;
        let mut random = Rng::with_seed(seed);
        let started = Instant::now();
        for done in 0..texts {
            // A clock that is read for each text would be most of the work.
            if done % 1_024 == 0 && started.elapsed() >= time {
                return Ok(Ok(done));
            }
            let text = mutate::make(&mut random, &corpus, self.words);
            if let Err(why) = self.look(&text) {
                let text = self.shorten(text);
                return Ok(Err(Finding { text, why }));
            }
        }
        Ok(Ok(texts))
    }

    /// Leaves out characters for as long as something is wrong with the rest.
    fn shorten(&self, mut text: String) -> String {
        loop {
            let shorter = text.char_indices().find_map(|(place, character)| {
                let mut shorter = text.clone();
                shorter.replace_range(place..place + character.len_utf8(), "");
                self.look(&shorter).is_err().then_some(shorter)
            });
            match shorter {
                Some(shorter) => text = shorter,
                None => return text,
            }
        }
    }
}

/// A text that something is wrong with.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The text.
    pub text: String,
    /// What is wrong.
    pub why: String,
}
