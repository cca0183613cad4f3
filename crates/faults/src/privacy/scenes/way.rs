//! Ways to a server that lead nowhere, or break.

use std::sync::Arc;
use std::time::Duration;

use duebox_core::Statement;

use super::{NOTHING, all};
use crate::place::{Engine, address};
use crate::privacy::ear::Ear;
use crate::privacy::marks::MARK;
use crate::privacy::stage::{Stage, ways};
use crate::proxy::Proxy;
use crate::server::Fallible;
use crate::tally::Tally;

/// Nobody there, or nobody who lets us in.
pub(super) async fn away(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    let with = format!("nobody_there:{MARK}");
    let urls = [
        ("connection refused", stage.at(&with, Some(9), "test")),
        ("log-in refused", stage.at(&with, None, &stage.database)),
        ("no such database", {
            let user = match stage.engine {
                Engine::Postgres => "postgres",
                _ => "test:test",
            };
            stage.at(user, None, "nowhere_at_all")
        }),
    ];
    for (scene, url) in urls {
        let ways = ways(stage.engine, &url.ok_or("no URL")?).await?;
        for way in &ways {
            ear.call(scene, way.db.now()).await;
            ear.hear_log(scene);
        }
        // One call each is enough: they all begin with a connection.
        let work = Statement::new("SELECT ?").bind(MARK);
        for way in &ways {
            ear.call(scene, way.db.query(&work)).await;
            ear.hear_log(scene);
        }
    }
    Ok(())
}

/// The way breaks at every call, before it arrives and after.
pub(super) async fn cut(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage.renew().await?;
    let server = stage.server.as_ref().ok_or("no server")?;
    let address = address(&server.url).ok_or("no address")?;
    let proxy = Proxy::start(address, Arc::new(Tally::default())).await?;
    let url = crate::place::with(&stage.url, Some(proxy.port), &stage.database);
    let ways = ways(stage.engine, &url.ok_or("no URL")?).await?;
    let before = || proxy.way.cut_before(1);
    all(ear, "cut before", &ways, &before).await;
    proxy.way.mend();
    let after = || proxy.way.cut_after(1);
    all(ear, "cut after", &ways, &after).await;
    Ok(())
}

/// Sessions are killed all the time.
pub(super) async fn killed(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage.renew().await?;
    let server = stage.server.as_ref().ok_or("no server")?;
    let ways = stage.ways().await?;
    let kills = async {
        loop {
            // The server may be busy with the last ones.
            let _ = server.kill_sessions(&stage.database, 9).await;
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
    };
    tokio::select! {
        () = kills => {}
        () = all(ear, "sessions killed", &ways, NOTHING) => {}
    }
    Ok(())
}
