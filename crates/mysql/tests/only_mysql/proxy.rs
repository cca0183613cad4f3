//! A link that can be slow, or lose what is said.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What happens to the link; shared with the tasks that carry it.
#[derive(Default)]
pub(crate) struct Link {
    /// Once a `COMMIT` was sent, nothing comes back and the link ends.
    pub(crate) cut_at_commit: AtomicBool,
    /// Likewise once the value `cut-here` was sent.
    pub(crate) cut_at_mark: AtomicBool,
}

/// Carries connections to `target` with a delay each way; gives the port.
pub(crate) async fn start(target: String, delay: Duration, link: Arc<Link>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(&target).await else {
                continue;
            };
            tokio::spawn(carry(client, server, delay, Arc::clone(&link)));
        }
    });
    port
}

async fn carry(mut client: TcpStream, mut server: TcpStream, delay: Duration, link: Arc<Link>) {
    let (mut from_client, mut from_server) = (vec![0; 65_536], vec![0; 65_536]);
    let mut cut = false;
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(length @ 1..) = read else { return };
                let sent = &from_client[..length];
                if link.cut_at_mark.load(Ordering::SeqCst)
                    && sent.windows(8).any(|word| word == b"cut-here")
                {
                    cut = true;
                }
                if link.cut_at_commit.load(Ordering::SeqCst)
                    && sent.windows(7).any(|word| word == b"COMMIT ")
                {
                    cut = true;
                }
                tokio::time::sleep(delay).await;
                if server.write_all(sent).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(length @ 1..) = read else { return };
                if cut {
                    return;
                }
                tokio::time::sleep(delay).await;
                if client.write_all(&from_server[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
