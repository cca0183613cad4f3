//! One history from its plan to its judgement.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::check::{Findings, Kind, Violation, check, excerpt};
use crate::drain;
use crate::full::Disk;
use crate::history::{Answer, History, Journal};
use crate::place::{Engine, Place, address, with};
use crate::plan::{Plan, Strike};
use crate::proxy::{Proxy, Way};
use crate::role::Role;
use crate::server::{Fallible, Server};
use crate::tally::{Fault, Tally};
use crate::troupe::Troupe;

/// What histories of one engine have in common.
pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) work: PathBuf,
    pub(crate) server: Option<Arc<Server>>,
    pub(crate) disk: Option<Arc<Disk>>,
    pub(crate) tally: Arc<Tally>,
    /// How long faults strike.
    pub(crate) millis: u64,
}

/// What came of a history.
pub(crate) struct Verdict {
    pub(crate) violations: Vec<Violation>,
    history: History,
}

impl Verdict {
    /// How many calls were answered so.
    pub(crate) fn count(&self, answered: impl Fn(&Answer) -> bool) -> u64 {
        let all = self.history.ops.iter();
        all.filter(|op| answered(&op.answer)).count() as u64
    }

    pub(crate) fn excerpt(&self, violation: &Violation) -> String {
        excerpt(&self.history, &violation.what)
    }
}

/// How long rows may take that are due when all faults have ended.
const RECOVERY: Duration = Duration::from_mins(1);

/// All that a strike needs.
#[derive(Clone)]
struct Hands {
    troupe: Arc<Mutex<Troupe>>,
    way: Option<Arc<Way>>,
    server: Option<Arc<Server>>,
    disk: Option<Arc<Disk>>,
    tally: Arc<Tally>,
    database: String,
    file: PathBuf,
}

impl Stage {
    pub(crate) async fn play(&self, plan: &Plan, keep: bool) -> Fallible<Verdict> {
        let name = format!("duebox_faults_{}_{}", std::process::id(), plan.seed);
        let folder = self.work.join(&name);
        let journals = folder.join("journals");
        std::fs::create_dir_all(&journals)?;
        let url = match (&self.server, &self.disk) {
            (Some(server), _) => server.create(&name).await?,
            (None, Some(disk)) => {
                let place = disk.folder.join(&name);
                std::fs::create_dir_all(&place)?;
                place.join("history.db").to_string_lossy().into_owned()
            }
            (None, None) => return Err("neither a server nor a disk".into()),
        };
        let place = Place {
            engine: self.engine,
            url,
            table: plan.table.to_owned(),
        };
        place.make().await?;
        let verdict = self.act(plan, &name, &place, &journals).await;
        if let Some(server) = &self.server {
            server.drop_database(&name).await?;
        }
        if let (None, Some(disk)) = (&self.server, &self.disk) {
            std::fs::remove_dir_all(disk.folder.join(&name))?;
        }
        let broke = !matches!(&verdict, Ok(verdict) if verdict.violations.is_empty());
        if !(keep && broke) {
            std::fs::remove_dir_all(&folder)?;
        }
        verdict
    }

    async fn act(
        &self,
        plan: &Plan,
        database: &str,
        place: &Place,
        journals: &Path,
    ) -> Fallible<Verdict> {
        let proxy = match &self.server {
            Some(server) => {
                let address = address(&server.url).ok_or("the URL names no server")?;
                Some(Proxy::start(address, Arc::clone(&self.tally)).await?)
            }
            None => None,
        };
        let mut theirs = place.clone();
        if let Some(proxy) = &proxy {
            let url = with(&place.url, Some(proxy.port), database);
            theirs.url = url.ok_or("the URL names no database")?;
        }
        let sign = match self.engine {
            Engine::Sqlite => self.disk.as_ref().and_then(|disk| disk.sign()),
            _ => None,
        };
        let troupe = Troupe::start(theirs, journals.to_owned(), sign, plan.seed, &plan.cast)?;
        for cast in &plan.cast {
            if cast.skew_ms != 0 {
                self.tally.count(Fault::WrongClock);
            }
        }
        let hands = Hands {
            troupe: Arc::new(Mutex::new(troupe)),
            way: proxy.as_ref().map(|proxy| Arc::clone(&proxy.way)),
            server: self.server.clone(),
            disk: self.disk.clone(),
            tally: Arc::clone(&self.tally),
            database: database.to_owned(),
            file: PathBuf::from(&place.url),
        };

        self.strike(plan, &hands).await?;

        let mut stuck = Vec::new();
        let mut troupe = hands.troupe.lock().await;
        let drains = |role| matches!(role, Role::Worker | Role::Drainer);
        stuck.extend(troupe.dismiss(|role| !drains(role)).await);
        let open = place.open().await?;
        if !drain::settled(&open, place, RECOVERY).await {
            stuck.push(format!("rows are due {RECOVERY:?} after the last fault"));
        }
        stuck.extend(troupe.dismiss(drains).await);

        let journal = Arc::new(Journal::create(&journals.join("drain.jsonl"))?);
        let contents = drain::drain(&open, place, &journal).await?;
        let history = History::read(journals)?;
        let mut violations = check(&history, &contents);
        let mut found = Findings::default();
        for why in stuck {
            found.add(Kind::Stuck, "the end", why);
        }
        violations.extend(found.into_violations());
        Ok(Verdict {
            violations,
            history,
        })
    }

    /// Lets everything happen that is planned, and waits until it is over.
    async fn strike(&self, plan: &Plan, hands: &Hands) -> Fallible<()> {
        let start = Instant::now();
        let mut strikes = JoinSet::new();
        for (at, strike) in plan.strikes.clone() {
            tokio::time::sleep_until(start + Duration::from_millis(at)).await;
            let hands = hands.clone();
            strikes.spawn(async move { hands.strike(strike).await });
        }
        tokio::time::sleep_until(start + Duration::from_millis(self.millis)).await;
        while let Some(done) = strikes.join_next().await {
            done??;
        }
        if let Some(way) = &hands.way {
            way.mend();
        }
        Ok(())
    }
}

async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

impl Hands {
    async fn strike(self, strike: Strike) -> Fallible<()> {
        match strike {
            Strike::Kill { process } => {
                self.troupe.lock().await.kill(process).await?;
                self.tally.count(Fault::Killed);
            }
            Strike::Stop { process, last } => {
                let stopped = self.troupe.lock().await.stand_still(process);
                pass(last).await;
                self.troupe.lock().await.go_on(process);
                if stopped {
                    self.tally.count(Fault::Stopped);
                }
            }
            Strike::Restart => {
                self.server()?.restart().await?;
                self.tally.count(Fault::Restarted);
            }
            Strike::Crash => {
                self.server()?.crash().await?;
                self.tally.count(Fault::Crashed);
            }
            Strike::KillSessions { most } => {
                // The server may just be away.
                let killed = self.server()?.kill_sessions(&self.database, most).await;
                for _ in 0..killed.unwrap_or(0) {
                    self.tally.count(Fault::SessionKilled);
                }
            }
            Strike::Fill { last } => {
                let disk = self.disk.as_ref().ok_or("no disk")?;
                disk.fill()?;
                pass(last).await;
                disk.empty();
                if let Some(server) = &self.server {
                    server.revive().await?;
                }
                self.tally.count(Fault::DiskFull);
            }
            Strike::Lock { last } => {
                let file = self.file.clone();
                let held = tokio::task::spawn_blocking(move || lock(&file, last)).await?;
                // Somebody else may have it for too long, or the disk be full.
                if held.is_ok() {
                    self.tally.count(Fault::LockHeld);
                }
            }
            Strike::Delay { millis, last } => {
                self.way()?.delay(millis);
                pass(last).await;
                self.way()?.delay(0);
            }
            Strike::Hold { last } => {
                self.way()?.hold(true);
                pass(last).await;
                self.way()?.hold(false);
            }
            Strike::CutBefore { requests } => self.way()?.cut_before(requests),
            Strike::CutAfter { requests } => self.way()?.cut_after(requests),
        }
        Ok(())
    }

    fn server(&self) -> Fallible<&Server> {
        self.server.as_deref().ok_or_else(|| "no server".into())
    }

    fn way(&self) -> Fallible<&Way> {
        self.way.as_deref().ok_or_else(|| "no proxy".into())
    }
}

/// Holds the lock of the file as another program would.
fn lock(file: &Path, millis: u64) -> duebox_sqlite::rusqlite::Result<()> {
    let conn = duebox_sqlite::rusqlite::Connection::open(file)?;
    conn.busy_timeout(Duration::from_secs(1))?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    std::thread::sleep(Duration::from_millis(millis));
    conn.execute_batch("ROLLBACK")
}
