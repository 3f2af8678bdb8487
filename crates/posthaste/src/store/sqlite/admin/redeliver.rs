//! One old event once more to one subscription.
//!
//! Under the write lock: the event is there as long as its delivery, and nobody parks keys meanwhile.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::id::{EventId, WorkerName};
use crate::lease::{ClaimedEvent, Holder, Reader};
use crate::outcome::DeliveryStatus;
use crate::store::admin::{Existing, Redelivery, Verb, Way, way_without_delivery};
use crate::store::rows::left_over;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::convert::event_of;
use crate::store::sqlite::deliveries::insert_troubles;
use crate::store::sqlite::statements::SQL;

use super::search::state_of;
use super::verbs::change;
use super::{record_deliveries, repark};

const DOING: &str = "deliver an event again";

impl SqliteStore {
    pub(super) async fn deliver_again(&self, name: &str, id: EventId, who: &str) -> Result<Redelivery> {
        let reader = self.load_reader(name).await?;
        let mut tx = self.begin(DOING).await?;
        let event = event_to_redeliver(&mut tx, id).await?;
        match way_of(&mut tx, &reader, &event).await? {
            Way::Leave(redelivery) => return Ok(redelivery),
            Way::Revive => revive(&mut tx, &reader, &event, who).await?,
            Way::Write => write_again(&mut tx, &reader, event.clone(), who).await?,
        }
        let placed = delivery_of(&mut tx, &reader, event.seq).await?.map(Existing::placed);
        tx.commit(DOING).await?;
        Ok(placed.unwrap_or(Redelivery::Held))
    }
}

async fn event_to_redeliver(tx: &mut SqliteConnection, id: EventId) -> Result<Event> {
    let row = sqlx::query(SQL.event_by_id.clone()).bind(id.0.hyphenated()).fetch_optional(tx).await;
    let row = row.map_err(Error::database(DOING))?.ok_or_else(|| Error::NoSuchEvent(id.to_string()))?;
    event_of(&row)
}

async fn way_of(tx: &mut SqliteConnection, reader: &Reader, event: &Event) -> Result<Way> {
    if let Some(existing) = delivery_of(tx, reader, event.seq).await? {
        return Ok(existing.way());
    }
    let rows = sqlx::query(SQL.admin_states_of.clone()).bind(event.seq).fetch_all(tx).await;
    let rows = rows.map_err(Error::database(DOING))?;
    let here = rows.iter().find(|row| row.get::<&str, _>("subscription") == reader.name);
    let not_wanted = || Error::NotWanted { subscription: reader.name.clone(), event: event.id.to_string() };
    state_of(here.ok_or_else(not_wanted)?).map(|state| way_without_delivery(&state))
}

async fn delivery_of(tx: &mut SqliteConnection, reader: &Reader, seq: i64) -> Result<Option<Existing>> {
    let found = sqlx::query(SQL.admin_delivery_of.clone())
        .bind(reader.id)
        .bind(seq)
        .fetch_optional(tx)
        .await
        .map_err(Error::database(DOING))?;
    found.as_ref().map(existing).transpose()
}

async fn revive(tx: &mut SqliteConnection, reader: &Reader, event: &Event, who: &str) -> Result<()> {
    record_deliveries(tx, reader, &[event.seq], who, Verb::Redeliver.as_str()).await?;
    change(tx, &Verb::Redeliver, reader, &[event.seq], who).await?;
    repark(tx, reader, event.key.clone().into_iter().collect()).await
}

async fn write_again(tx: &mut SqliteConnection, reader: &Reader, event: Event, who: &str) -> Result<()> {
    let (seq, id) = (event.seq, event.id);
    let claimed = ClaimedEvent { event, blocked: false, elsewhere: false, wait: None };
    let holder = Holder { worker: WorkerName::unique(), lease: reader.settings.lease };
    let trouble = left_over(&claimed, reader);
    let key = trouble.key.clone();
    insert_troubles(tx, reader, &[trouble], &holder).await?;
    repark(tx, reader, key.into_iter().collect()).await?;
    sqlx::query(SQL.admin_record_event.clone())
        .bind(who)
        .bind(Verb::Redeliver.as_str())
        .bind(&reader.name)
        .bind(seq)
        .bind(id.0.hyphenated())
        .execute(tx)
        .await
        .map(|_| ())
        .map_err(Error::database("record an operation"))
}

fn existing(row: &SqliteRow) -> Result<Existing> {
    let word: &str = row.get("status");
    let status =
        DeliveryStatus::parse(word).ok_or_else(|| Error::Corrupt(format!("`{word}` is not a status")))?;
    Ok(Existing { status, parked: row.get("parked"), steps: row.get("steps"), held: row.get("held") })
}
