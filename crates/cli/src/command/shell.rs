use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs};
use crate::error::CliError;
use crate::output;

pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "duebox", &mut script);
    output::data(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// The pages of the command and of each subcommand, one after the other.
pub(crate) fn man() -> Result<ExitCode, CliError> {
    let mut command = Args::command();
    command.build();
    let mut page = Vec::new();
    for command in std::iter::once(&command).chain(command.get_subcommands()) {
        clap_mangen::Man::new(command.clone())
            .render(&mut page)
            .map_err(|error| CliError::Io("write the manual page", error))?;
    }
    output::data(String::from_utf8_lossy(&page).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
