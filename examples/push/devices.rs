//! The service's devices, and what of them is still to be done.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use duebox_sqlite::{
    Database, DbError, DeviceRegistry, DeviceToken, Enqueue, Outbox, PushFuture, PushStoreError,
    Statement, format_time, uuid::Uuid,
};
use duebox_worker::Clock;

use crate::Error;
use crate::send::TOPIC;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS device (
    id VARCHAR(36) PRIMARY KEY,
    token VARCHAR(512) NOT NULL,
    registered_at VARCHAR(27) NOT NULL,
    greeted BIGINT NOT NULL DEFAULT 0,
    gone BIGINT NOT NULL DEFAULT 0
)";

#[derive(Clone)]
pub(crate) struct Devices(Arc<dyn Database>);

impl Devices {
    pub(crate) async fn open(db: Arc<dyn Database>) -> Result<Self, DbError> {
        db.execute(&Statement::new(TABLE)).await?;
        Ok(Self(db))
    }

    /// Registers so many, each with its greeting, and returns how many were new. Every
    /// tenth is of an app that was removed, which nobody knows before the receipt.
    pub(crate) async fn register(
        &self,
        outbox: &Outbox,
        devices: u32,
        clock: &Clock,
    ) -> Result<u64, Error> {
        let mut new = 0;
        for number in 0..devices {
            let id = Uuid::from_u128(number.into()).to_string();
            let kind = if number % 10 == 9 { "gone" } else { "phone" };
            let now = clock.now();
            let device = "INSERT INTO device (id, token, registered_at) VALUES (?, ?, ?)";
            let batch = [
                Statement::new(device)
                    .bind(&*id)
                    .bind(format!("ExponentPushToken[{kind}-{number}]"))
                    .bind(format_time(now)?),
                outbox.enqueue(Enqueue::new(TOPIC).subject(&*id).payload(&*id).at(now)),
            ];
            match self.0.batch_atomic(&batch).await {
                Ok(_) => new += 1,
                // It is there since an earlier run, with its greeting.
                Err(error) if error.kind() == duebox_sqlite::Kind::Conflict => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(new)
    }

    /// The database's time.
    pub(crate) async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        self.0.now().await
    }

    /// The token of a device that is not gone.
    pub(crate) async fn token(&self, id: &str) -> Result<Option<DeviceToken>, Error> {
        let find = Statement::new("SELECT token FROM device WHERE id = ? AND gone = 0");
        let rows = self.0.query(&find.bind(id)).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        Ok(Some(DeviceToken::new(row.get::<String>("token")?)?))
    }

    pub(crate) async fn greeted(&self, id: &str) -> Result<(), DbError> {
        let greeted = Statement::new("UPDATE device SET greeted = greeted + 1 WHERE id = ?");
        self.0.execute(&greeted.bind(id)).await.map(drop)
    }

    /// Greetings that wait, and tickets without a receipt.
    pub(crate) async fn left(&self) -> Result<i64, DbError> {
        let count =
            "SELECT (SELECT COUNT(*) FROM outbox) + (SELECT COUNT(*) FROM pending_receipts) AS n";
        self.number(count).await
    }

    /// Devices that were greeted, and those that are gone.
    pub(crate) async fn count(&self) -> Result<(i64, i64), DbError> {
        let greeted = "SELECT COUNT(*) AS n FROM device WHERE greeted > 0";
        let gone = "SELECT COUNT(*) AS n FROM device WHERE gone = 1";
        Ok((self.number(greeted).await?, self.number(gone).await?))
    }

    async fn number(&self, sql: &'static str) -> Result<i64, DbError> {
        self.0.query(&Statement::new(sql)).await?[0].get("n")
    }
}

impl DeviceRegistry for Devices {
    fn invalidate(
        &self,
        tokens: Vec<DeviceToken>,
        sent_at: DateTime<Utc>,
    ) -> PushFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(async move {
            let sent_at = format_time(sent_at)?;
            let mut gone = 0;
            for token in tokens {
                // One that registered anew after the send is left alone.
                let update = "UPDATE device SET gone = 1
                    WHERE token = ? AND gone = 0 AND registered_at <= ?";
                let update = Statement::new(update).bind(token.as_str());
                gone += self.0.execute(&update.bind(&*sent_at)).await?;
            }
            Ok(gone)
        })
    }
}
