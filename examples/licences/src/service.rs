//! The licence service: each change of a licence and the event about it in one transaction.

use posthaste::Posthaste;
use sqlx::PgPool;
use uuid::Uuid;

use crate::Result;
use crate::change::{Status, StatusChanged};

/// The service, on PostgreSQL.
#[derive(Debug, Clone)]
pub struct Service {
    pool: PgPool,
    posthaste: Posthaste,
}

/// The application's own table.
const TABLE: &str = "create table if not exists licences (
  id text primary key,
  store_id text not null,
  status text not null,
  reason text
)";

impl Service {
    /// Creates what is missing.
    pub async fn open(pool: PgPool) -> Result<Self> {
        let posthaste = Posthaste::postgres(pool.clone());
        posthaste.migrate().await?;
        sqlx::query(TABLE).execute(&pool).await?;
        Ok(Self { pool, posthaste })
    }

    /// A store uploads a licence.
    pub async fn submit(&self, store_id: &str) -> Result<String> {
        let license_id = Uuid::now_v7().to_string();
        let change = StatusChanged {
            license_id: license_id.clone(),
            store_id: store_id.to_owned(),
            status: Status::Pending,
            reason: None,
        };
        let mut tx = self.pool.begin().await?;
        sqlx::query("insert into licences (id, store_id, status) values ($1, $2, $3)")
            .bind(&license_id)
            .bind(store_id)
            .bind(change.status.as_str())
            .execute(&mut *tx)
            .await?;
        self.posthaste.enqueue(&mut tx, change.event()?).await?;
        tx.commit().await?;
        Ok(license_id)
    }

    /// An admin decides.
    pub async fn decide(&self, license_id: &str, status: Status, reason: Option<&str>) -> Result<()> {
        let mut tx = self.pool.begin().await?;
        let store_id: String = sqlx::query_scalar(
            "update licences set status = $2, reason = $3 where id = $1 returning store_id",
        )
        .bind(license_id)
        .bind(status.as_str())
        .bind(reason)
        .fetch_one(&mut *tx)
        .await?;
        let (license_id, reason) = (license_id.to_owned(), reason.map(str::to_owned));
        let change = StatusChanged { license_id, store_id, status, reason };
        self.posthaste.enqueue(&mut tx, change.event()?).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Licences that go all the way, each with two changes.
    pub async fn run(&self, licences: usize) -> Result<()> {
        for number in 0..licences {
            let license_id = self.submit(&format!("store-{}", number % 7)).await?;
            match number % 3 {
                0 => self.decide(&license_id, Status::Rejected, Some("the scan cannot be read")).await?,
                _ => self.decide(&license_id, Status::Verified, None).await?,
            }
        }
        Ok(())
    }
}
