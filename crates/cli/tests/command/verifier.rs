//! Another implementation of Standard Webhooks: its npm package `standardwebhooks`.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::server::Request;

const VERSION: &str = "1.1.1";

/// Reads `{secret, headers, body}` a line; fails if one is not verified.
const SCRIPT: &str = r#"
const { Webhook } = require("standardwebhooks");
const lines = require("fs").readFileSync(0, "utf8").trim().split("\n");
for (const line of lines) {
  const { secret, headers, body } = JSON.parse(line);
  new Webhook(secret).verify(body, headers, { jsonParse: false });
}
console.log(lines.length + " verified");
"#;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("standardwebhooks")
}

fn package() -> PathBuf {
    folder().join("node_modules/standardwebhooks/package.json")
}

/// Whether it is here, after it was fetched if that can be done. That it is
/// not is said.
pub(crate) fn is_here() -> bool {
    if package().is_file() {
        return true;
    }
    let _ = std::fs::create_dir_all(folder());
    let _ = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--silent"])
        .args([
            "--ignore-scripts",
            "--fetch-retries=0",
            "--fetch-timeout=20000",
        ])
        .arg("--prefix")
        .arg(folder())
        .arg(format!("standardwebhooks@{VERSION}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let here = package().is_file() && Command::new("node").arg("--version").output().is_ok();
    if !here {
        eprintln!(
            "NOT RUN: signatures were not checked by another implementation, since neither \
             node nor npm could give the package standardwebhooks {VERSION}; the vectors of \
             the scheme are still checked by the unit tests of this crate"
        );
    }
    here
}

/// Whether it verifies all of these by each of the secrets.
pub(crate) fn verifies(requests: &[Request], secrets: &[&str]) -> bool {
    let mut node = Command::new("node")
        .args(["-e", SCRIPT])
        .current_dir(folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("start node");
    let mut stdin = node.stdin.take().expect("its input");
    for request in requests {
        for secret in secrets {
            let line = serde_json::json!({
                "secret": secret,
                "headers": request.headers,
                "body": request.body,
            });
            writeln!(stdin, "{line}").expect("write");
        }
    }
    drop(stdin);
    let done = node.wait_with_output().expect("its end");
    let count = requests.len() * secrets.len();
    done.status.success() && done.stdout == format!("{count} verified\n").into_bytes()
}
