//! A job is a run of a command.

use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use async_trait::async_trait;
use duebox_worker::{Handler, Job, Outcome};
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};

use crate::error::CliError;

/// "Temporary failure" in `sysexits.h`.
const RETRY: i32 = 75;
/// "Data format error" there.
const PARK: i32 = 65;

/// The command, if it is there: one that is not would use up attempts.
pub(super) fn found(command: &[OsString]) -> Result<Vec<OsString>, CliError> {
    let name = command.first().map_or(Path::new(""), Path::new);
    let is_there = if name.components().count() > 1 || name.is_absolute() {
        can_run(name)
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| {
            let path = folder.join(name);
            can_run(&path) || cfg!(windows) && can_run(&path.with_extension("exe"))
        })
    };
    if is_there {
        Ok(command.to_vec())
    } else {
        Err(CliError::usage(
            "the command that --exec names is not there, or cannot be executed; \
             give its path, or see PATH",
        ))
    }
}

#[cfg(unix)]
fn can_run(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn can_run(path: &Path) -> bool {
    path.is_file()
}

pub(super) struct Exec {
    command: Vec<OsString>,
}

impl Exec {
    pub(super) const fn new(command: Vec<OsString>) -> Self {
        Self { command }
    }

    fn command(&self, job: &Job) -> Option<Command> {
        let (program, arguments) = self.command.split_first()?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_remove("DUEBOX_DATABASE_URL")
            .env_remove("DUEBOX_SUBJECT")
            .env("DUEBOX_ID", job.id())
            .env("DUEBOX_TOPIC", job.topic())
            .env("DUEBOX_ATTEMPT", job.attempt().to_string())
            .env("DUEBOX_CREATED_AT", &job.record().created_at)
            .stdin(Stdio::piped())
            // Standard output is for data, and a delivery has none.
            .stdout(Stdio::from(std::io::stderr()))
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        if let Some(subject) = job.subject() {
            command.env("DUEBOX_SUBJECT", subject);
        }
        #[cfg(unix)]
        command.process_group(0);
        Some(command)
    }
}

#[async_trait]
impl Handler for Exec {
    async fn handle(&self, job: Job) -> Outcome {
        let child = self.command(&job).map(|mut command| command.spawn());
        let mut child = match child {
            Some(Ok(child)) => child,
            Some(Err(error)) => {
                return Outcome::retry(format!("the command was not started: {}", error.kind()));
            }
            None => return Outcome::retry("there is no command"),
        };
        let group = Group::of(child.id());
        let stdin = child.stdin.take();
        let status = tokio::select! {
            biased;
            status = child.wait() => status,
            never = feed(stdin, job.payload().as_bytes()) => match never {},
        };
        group.ended();
        match status {
            Ok(status) => outcome(status),
            Err(error) => {
                Outcome::retry(format!("the command's end is not known: {}", error.kind()))
            }
        }
    }
}

/// Writes the payload, or as much as is read of it; never ends.
async fn feed(stdin: Option<ChildStdin>, payload: &[u8]) -> std::convert::Infallible {
    if let Some(mut stdin) = stdin {
        // A command that knows enough by its environment need not read.
        let _ = stdin.write_all(payload).await;
        let _ = stdin.shutdown().await;
    }
    std::future::pending().await
}

fn outcome(status: ExitStatus) -> Outcome {
    match status.code() {
        Some(0) => Outcome::Done,
        Some(RETRY) => Outcome::retry("the command asked for another attempt (exit code 75)"),
        Some(PARK) => Outcome::park("the command refused the job (exit code 65)"),
        Some(code) => Outcome::retry(format!("the command failed with exit code {code}")),
        None => Outcome::retry(match signal(status) {
            Some(signal) => format!("the command was ended by signal {signal}"),
            None => "the command was ended".to_owned(),
        }),
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}

/// The command and all that it started, killed when this is dropped before the
/// command has ended: as its time is up, or a stop can wait no longer.
struct Group(Option<u32>);

impl Group {
    const fn of(id: Option<u32>) -> Self {
        Self(id)
    }

    /// The command was waited for, so that its number may be another's now.
    fn ended(mut self) {
        self.0 = None;
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let id = self.0.and_then(|id| i32::try_from(id).ok());
        if let Some(group) = id.and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
