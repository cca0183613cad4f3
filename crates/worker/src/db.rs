use std::time::Duration;

use duebox_core::{DbError, Kind};

/// How long a call may take: a connection that leads nowhere must not hold up
/// a worker for as long as the network believes in it.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Ends a call that takes too long. What it was to do may have been done.
pub(crate) async fn bounded<T>(
    call: impl Future<Output = Result<T, DbError>>,
) -> Result<T, DbError> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(answer) => answer,
        Err(_) => Err(DbError::new(
            Kind::Unavailable,
            "the database gave no answer within 30 s",
        )),
    }
}

/// Pauses between attempts while a database is away: they double from a tenth
/// of a second to five, each with a random part taken off, so that a hundred
/// workers do not come back as one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pauses(u32);

impl Pauses {
    const LONGEST: Duration = Duration::from_secs(5);

    pub(crate) fn next(&mut self) -> Duration {
        let pause = Duration::from_millis(100) * 2_u32.pow(self.0.min(6));
        self.0 = self.0.saturating_add(1);
        pause
            .min(Self::LONGEST)
            .mul_f64(1.0 - fastrand::f64() / 2.0)
    }

    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }
}
