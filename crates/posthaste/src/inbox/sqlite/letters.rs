//! Dead letters in SQLite.

use chrono::{DateTime, Utc};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::error::{Error, Result};
use crate::inbox::letter::{DeadLetter, LetIn, Letter, LetterFilter, LetterStatus, storable};
use crate::inbox::letters::{headers_of, headers_text, status_of};

use super::SqliteTables;
use super::statements::SQL;

impl SqliteTables {
    pub(super) async fn keep_letter(
        &self,
        tx: &mut SqliteConnection,
        consumer: &str,
        letter: &Letter,
    ) -> Result<i64> {
        sqlx::query_scalar(SQL.give_up.clone())
            .bind(consumer)
            .bind(&letter.event_id)
            .bind(letter.topic.as_deref().map(storable))
            .bind(letter.key.as_deref().map(storable))
            .bind(letter.content_type.as_deref().map(storable))
            .bind(headers_text(&letter.headers)?)
            .bind(&letter.payload)
            .bind(storable(&letter.reason))
            .bind(i64::from(letter.attempts))
            .fetch_one(tx)
            .await
            .map_err(Error::database("keep a dead letter"))
    }

    pub(in crate::inbox) async fn list(&self, filter: &LetterFilter) -> Result<Vec<DeadLetter>> {
        let rows = sqlx::query(SQL.list_letters.clone())
            .bind(filter.consumer.as_deref().map(storable))
            .bind(filter.status.map(LetterStatus::as_str))
            .bind(filter.topic.as_deref().map(storable))
            .bind(filter.event_id.as_deref().map(storable))
            .bind(filter.reason_contains.as_deref().map(storable))
            .bind(filter.before)
            .bind(i64::from(filter.limit))
            .fetch_all(&self.pool)
            .await
            .map_err(Error::database("list dead letters"))?;
        rows.iter().map(letter_of).collect()
    }

    pub(in crate::inbox) async fn get(&self, number: i64) -> Result<Option<DeadLetter>> {
        let found = sqlx::query(SQL.get_letter.clone()).bind(number).fetch_optional(&self.pool).await;
        found.map_err(Error::database("get a dead letter"))?.as_ref().map(letter_of).transpose()
    }

    pub(in crate::inbox) async fn discard(&self, number: i64) -> Result<bool> {
        let done = sqlx::query(SQL.discard_letter.clone()).bind(number).execute(&self.pool).await;
        Ok(done.map_err(Error::database("discard a dead letter"))?.rows_affected() == 1)
    }

    pub(in crate::inbox) async fn let_in(&self, letter: &DeadLetter) -> Result<LetIn> {
        let doing = "let a dead letter in again";
        let forget = sqlx::query(SQL.let_in.clone()).bind(letter.number).execute(&self.pool).await;
        if forget.map_err(Error::database(doing))?.rows_affected() == 1 {
            return Ok(LetIn::Forgotten);
        }
        let marked = sqlx::query_scalar(SQL.is_marked.clone())
            .bind(&letter.consumer)
            .bind(&letter.letter.event_id)
            .fetch_one(&self.pool)
            .await
            .map_err(Error::database(doing))?;
        Ok(if marked { LetIn::Done } else { LetIn::NoMark })
    }

    pub(in crate::inbox) async fn note_resent(&self, letter: &DeadLetter) -> Result<bool> {
        let statement = sqlx::query(SQL.note_resent.clone()).bind(letter.number);
        let noted = statement.bind(i64::from(letter.times)).execute(&self.pool).await;
        Ok(noted.map_err(Error::database("note that a letter was sent again"))?.rows_affected() == 1)
    }

    pub(in crate::inbox) async fn resent(&self, number: i64) -> Result<bool> {
        let doing = "let a dead letter in again";
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(Error::database(doing))?;
        let found = sqlx::query_as(SQL.lock_letter.clone()).bind(number).fetch_optional(&mut *tx).await;
        let found: Option<(String, String, String)> = found.map_err(Error::database(doing))?;
        let Some((consumer, event_id, status)) = found else { return Ok(false) };
        let status = status_of(&status)?;
        if status == LetterStatus::Open {
            let noted = sqlx::query(SQL.resent_letter.clone()).bind(number).execute(&mut *tx).await;
            noted.map_err(Error::database(doing))?;
            self.forget(&mut tx, &consumer, &event_id).await?;
            tx.commit().await.map_err(Error::database(doing))?;
        }
        Ok(status != LetterStatus::Discarded)
    }

    pub(super) async fn holds_letter(
        &self,
        tx: &mut SqliteConnection,
        consumer: &str,
        event_id: &str,
    ) -> Result<bool> {
        let asked = sqlx::query_scalar(SQL.holds_letter.clone()).bind(consumer).bind(event_id);
        asked.fetch_one(tx).await.map_err(Error::database("look for a dead letter"))
    }
}

fn letter_of(row: &SqliteRow) -> Result<DeadLetter> {
    let read = || -> sqlx::Result<(DeadLetter, String, String)> {
        let letter = Letter {
            event_id: row.try_get("event_id")?,
            payload: row.try_get("payload")?,
            reason: row.try_get("reason")?,
            attempts: u32::try_from(row.try_get::<i64, _>("attempts")?).unwrap_or(u32::MAX),
            topic: row.try_get("topic")?,
            key: row.try_get("key")?,
            content_type: row.try_get("content_type")?,
            headers: Vec::new(),
        };
        let dead = DeadLetter {
            number: row.try_get("number")?,
            consumer: row.try_get("consumer")?,
            letter,
            times: u32::try_from(row.try_get::<i64, _>("times")?).unwrap_or(u32::MAX),
            status: LetterStatus::Open,
            given_up_at: time_of(row.try_get("given_up_at")?),
            decided_at: row.try_get::<Option<i64>, _>("decided_at")?.map(time_of),
        };
        Ok((dead, row.try_get("headers")?, row.try_get("status")?))
    };
    let (mut dead, headers, status) = read().map_err(Error::database("read a dead letter"))?;
    dead.letter.headers = headers_of(&headers)?;
    dead.status = status_of(&status)?;
    Ok(dead)
}

fn time_of(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap_or_default()
}
