//! One old event once more to one subscription.
//!
//! Under the lock that keeps retention away, so that the event is there as long as its delivery; and under the
//! subscription's, as everything that parks keys.

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::id::EventId;
use crate::lease::{ClaimedEvent, Reader};
use crate::outcome::DeliveryStatus;
use crate::store::admin::{Existing, Redelivery, Verb, Way, way_without_delivery};
use crate::store::postgres::{PgStore, event_of};

use super::search::state_of;

const DOING: &str = "deliver an event again";

impl PgStore {
    pub(super) async fn deliver_again(&self, name: &str, id: EventId, who: &str) -> Result<Redelivery> {
        let reader = self.load_reader(name).await?;
        let mut conn = self.lend(DOING).await?;
        let mut tx = conn.begin(DOING).await?;
        self.lock_meta(&mut tx).await?;
        self.lock_subscription(&mut tx, &reader).await?;
        let event = self.event_to_redeliver(&mut tx, id).await?;
        match self.way_of(&mut tx, &reader, &event).await? {
            Way::Leave(redelivery) => return Ok(redelivery),
            Way::Revive => self.revive(&mut tx, &reader, &event, who).await?,
            Way::Write => self.write_again(&mut tx, &reader, event.clone(), who).await?,
        }
        let placed = self.delivery_of(&mut tx, &reader, event.seq).await?.map(Existing::placed);
        tx.commit().await.map_err(Error::database(DOING))?;
        Ok(placed.unwrap_or(Redelivery::Held))
    }

    async fn event_to_redeliver(&self, tx: &mut PgConnection, id: EventId) -> Result<Event> {
        let row = self.query(self.sql.event_by_id.clone()).bind(id.0).fetch_optional(tx).await;
        let row = row.map_err(Error::database(DOING))?.ok_or_else(|| Error::NoSuchEvent(id.to_string()))?;
        event_of(&row)
    }

    async fn way_of(&self, tx: &mut PgConnection, reader: &Reader, event: &Event) -> Result<Way> {
        if let Some(existing) = self.delivery_of(tx, reader, event.seq).await? {
            return Ok(existing.way());
        }
        let rows = self.query(self.sql.admin_states_of.clone()).bind(event.seq).fetch_all(tx).await;
        let rows = rows.map_err(Error::database(DOING))?;
        let here = rows.iter().find(|row| row.get::<&str, _>("subscription") == reader.name);
        let not_wanted =
            || Error::NotWanted { subscription: reader.name.clone(), event: event.id.to_string() };
        state_of(here.ok_or_else(not_wanted)?).map(|state| way_without_delivery(&state))
    }

    async fn delivery_of(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        seq: i64,
    ) -> Result<Option<Existing>> {
        let found = self
            .query(self.sql.admin_delivery_of.clone())
            .bind(reader.id)
            .bind(seq)
            .fetch_optional(tx)
            .await
            .map_err(Error::database(DOING))?;
        found.as_ref().map(existing).transpose()
    }

    async fn revive(&self, tx: &mut PgConnection, reader: &Reader, event: &Event, who: &str) -> Result<()> {
        self.change(tx, &Verb::Redeliver, reader, &[event.seq], who).await?;
        self.repark(tx, reader, event.key.clone().into_iter().collect()).await
    }

    async fn write_again(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        event: Event,
        who: &str,
    ) -> Result<()> {
        let (seq, id) = (event.seq, event.id);
        let claimed = ClaimedEvent { event, blocked: false, elsewhere: false, wait: None };
        self.write_left_over(tx, reader, std::iter::once(&claimed)).await?;
        self.query(self.sql.admin_record_event.clone())
            .bind(who)
            .bind(Verb::Redeliver.as_str())
            .bind(&reader.name)
            .bind(seq)
            .bind(id.0)
            .execute(tx)
            .await
            .map(|_| ())
            .map_err(Error::database("record an operation"))
    }
}

fn existing(row: &PgRow) -> Result<Existing> {
    let word: &str = row.get("status");
    let status =
        DeliveryStatus::parse(word).ok_or_else(|| Error::Corrupt(format!("`{word}` is not a status")))?;
    Ok(Existing { status, parked: row.get("parked"), steps: row.get("steps"), held: row.get("held") })
}
