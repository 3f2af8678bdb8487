//! Pausing, tuning and removing a subscription.

use serde_json::json;
use sqlx::Row;

use crate::error::{Error, Result};
use crate::store::admin::{Override, overridden};
use crate::store::postgres::PgStore;

impl PgStore {
    pub(super) async fn pause_or_resume(&self, name: &str, paused: bool, who: &str) -> Result<bool> {
        let doing = "pause or resume a subscription";
        let reader = self.load_reader(name).await?;
        let mut conn = self.lend(doing).await?;
        let mut tx = conn.begin(doing).await?;
        let changed = self
            .query(self.sql.admin_set_paused.clone())
            .bind(reader.id)
            .bind(paused)
            .execute(&mut tx)
            .await
            .map_err(Error::database(doing))?;
        if changed.rows_affected() == 0 {
            return Ok(false);
        }
        let verb = if paused { "pause" } else { "resume" };
        self.record(&mut tx, who, verb, Some(name), json!({})).await?;
        tx.commit().await.map_err(Error::database(doing))?;
        Ok(true)
    }

    pub(super) async fn write_overrides(&self, name: &str, change: Override<'_>, who: &str) -> Result<()> {
        let doing = "change settings";
        let mut conn = self.lend(doing).await?;
        let mut tx = conn.begin(doing).await?;
        let row = self
            .query(self.sql.admin_stored_settings.clone())
            .bind(name)
            .fetch_optional(&mut tx)
            .await
            .map_err(Error::database(doing))?
            .ok_or_else(|| Error::NoSuchSubscription(name.to_owned()))?;
        let overrides = overridden(row.get("declared"), row.get("overrides"), change)?;
        self.query(self.sql.admin_set_overrides.clone())
            .bind(row.get::<i64, _>("id"))
            .bind(&overrides)
            .execute(&mut tx)
            .await
            .map_err(Error::database(doing))?;
        self.record(&mut tx, who, change.verb(), Some(name), json!({ "overrides": overrides })).await?;
        tx.commit().await.map_err(Error::database(doing))
    }

    pub(super) async fn remove_subscription(&self, name: &str, who: &str) -> Result<()> {
        let doing = "delete a subscription";
        let reader = self.load_reader(name).await?;
        let mut conn = self.lend(doing).await?;
        let mut tx = conn.begin(doing).await?;
        self.lock_subscription(&mut tx, &reader).await?;
        self.lock_lanes(&mut tx, &reader).await?;
        let holders: Vec<String> = self
            .workers(&mut tx, &reader)
            .await?
            .into_iter()
            .filter(|(_, holds)| *holds)
            .map(|(worker, _)| worker)
            .collect();
        if !holders.is_empty() {
            let problem = format!("`{name}` is being worked on by {}; stop it first", holders.join(", "));
            return Err(Error::invalid_setting("subscription", problem));
        }
        self.query(self.sql.admin_delete_subscription.clone())
            .bind(reader.id)
            .execute(&mut tx)
            .await
            .map_err(Error::database(doing))?;
        self.record(&mut tx, who, "delete subscription", Some(name), json!({})).await?;
        tx.commit().await.map_err(Error::database(doing))
    }
}
