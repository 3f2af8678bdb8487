//! Statements, prepared or not.
//!
//! A prepared statement belongs to a connection of the server, and a pooler in transaction mode (PgBouncer) gives every
//! transaction to another one. Without prepared statements the driver still asks twice, once to parse and once to run: only in
//! a transaction do both reach the same connection. So a statement alone gets a transaction of its own there, which costs two
//! round trips. With prepared statements, nothing is added.

use std::ops::{Deref, DerefMut};

use futures::stream::BoxStream;
use sqlx::postgres::{PgArguments, PgConnection, PgQueryResult, PgRow};
use sqlx::query::{Query, QueryScalar};
use sqlx::{Connection, Encode, FromRow, Postgres, SqlSafeStr, Transaction, Type};

use super::PgStore;
use super::deadline::BEGIN;

/// A statement with what is bound to it.
pub(super) struct Ask<'q> {
    query: Query<'q, Postgres, PgArguments>,
    together: bool,
}

/// The same, for a statement whose first column is the answer.
pub(super) struct AskScalar<'q, O> {
    query: QueryScalar<'q, Postgres, O, PgArguments>,
    together: bool,
}

/// From this batch of a lane on, statements about batches are prepared. PostgreSQL keeps the plan of a prepared statement from its
/// sixth run on, and one that was made for a table of a few rows reads the whole table ever after, until somebody analyzes it.
const GROWN: i64 = 100;

impl PgStore {
    /// About the batch of this number.
    pub(super) fn query_batch<'q>(&self, sql: impl SqlSafeStr, number: i64) -> Ask<'q> {
        let prepared = self.prepared && number >= GROWN;
        Ask { query: sqlx::query(sql).persistent(prepared), together: !self.prepared }
    }

    pub(super) fn query<'q>(&self, sql: impl SqlSafeStr) -> Ask<'q> {
        Ask { query: sqlx::query(sql).persistent(self.prepared), together: !self.prepared }
    }

    pub(super) fn query_scalar<'q, O>(&self, sql: impl SqlSafeStr) -> AskScalar<'q, O>
    where
        (O,): for<'r> FromRow<'r, PgRow>,
    {
        AskScalar { query: sqlx::query_scalar(sql).persistent(self.prepared), together: !self.prepared }
    }

    /// On a connection of the caller, whose transactions are the caller's: one begun without the driver's knowledge would be
    /// committed with ours.
    pub(super) fn query_for_caller<'q>(&self, sql: impl SqlSafeStr) -> Ask<'q> {
        Ask { query: sqlx::query(sql).persistent(self.prepared), together: false }
    }

    /// For statements whose rows are read one by one.
    pub(super) async fn together<'c>(&self, conn: &'c mut PgConnection) -> sqlx::Result<Together<'c>> {
        Together::begin(conn, !self.prepared).await
    }
}

impl<'q> Ask<'q> {
    pub(super) fn bind<T: 'q + Encode<'q, Postgres> + Type<Postgres>>(self, value: T) -> Self {
        Self { query: self.query.bind(value), ..self }
    }

    pub(super) async fn execute(self, conn: &mut PgConnection) -> sqlx::Result<PgQueryResult> {
        let mut conn = Together::begin(conn, self.together).await?;
        let done = self.query.execute(&mut *conn).await?;
        conn.end().await.map(|()| done)
    }

    pub(super) async fn fetch_all(self, conn: &mut PgConnection) -> sqlx::Result<Vec<PgRow>> {
        let mut conn = Together::begin(conn, self.together).await?;
        let rows = self.query.fetch_all(&mut *conn).await?;
        conn.end().await.map(|()| rows)
    }

    pub(super) async fn fetch_one(self, conn: &mut PgConnection) -> sqlx::Result<PgRow> {
        let row = self.fetch_optional(conn).await?;
        row.ok_or(sqlx::Error::RowNotFound)
    }

    pub(super) async fn fetch_optional(self, conn: &mut PgConnection) -> sqlx::Result<Option<PgRow>> {
        let mut conn = Together::begin(conn, self.together).await?;
        let row = self.query.fetch_optional(&mut *conn).await?;
        conn.end().await.map(|()| row)
    }

    /// Row by row, in what [`PgStore::together`] has begun.
    pub(super) fn fetch<'e>(self, conn: &'e mut Together<'_>) -> BoxStream<'e, sqlx::Result<PgRow>>
    where
        'q: 'e,
    {
        self.query.fetch(&mut **conn)
    }
}

impl<'q, O> AskScalar<'q, O>
where
    O: Send + Unpin + 'q,
    (O,): Send + Unpin + for<'r> FromRow<'r, PgRow>,
{
    pub(super) fn bind<T: 'q + Encode<'q, Postgres> + Type<Postgres>>(self, value: T) -> Self {
        Self { query: self.query.bind(value), ..self }
    }

    pub(super) async fn fetch_all(self, conn: &mut PgConnection) -> sqlx::Result<Vec<O>> {
        let mut conn = Together::begin(conn, self.together).await?;
        let answers = self.query.fetch_all(&mut *conn).await?;
        conn.end().await.map(|()| answers)
    }

    pub(super) async fn fetch_one(self, conn: &mut PgConnection) -> sqlx::Result<O> {
        let answer = self.fetch_optional(conn).await?;
        answer.ok_or(sqlx::Error::RowNotFound)
    }

    pub(super) async fn fetch_optional(self, conn: &mut PgConnection) -> sqlx::Result<Option<O>> {
        let mut conn = Together::begin(conn, self.together).await?;
        let answer = self.query.fetch_optional(&mut *conn).await?;
        conn.end().await.map(|()| answer)
    }
}

/// A connection on which what follows reaches the same connection of the server, if that matters.
pub(super) enum Together<'c> {
    As(&'c mut PgConnection),
    In(Transaction<'c, Postgres>),
}

impl<'c> Together<'c> {
    async fn begin(conn: &'c mut PgConnection, matters: bool) -> sqlx::Result<Self> {
        match matters && !conn.is_in_transaction() {
            true => conn.begin_with(BEGIN).await.map(Self::In),
            false => Ok(Self::As(conn)),
        }
    }

    pub(super) async fn end(self) -> sqlx::Result<()> {
        match self {
            Self::As(_) => Ok(()),
            Self::In(tx) => tx.commit().await,
        }
    }
}

impl Deref for Together<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::As(conn) => conn,
            Self::In(tx) => tx,
        }
    }
}

impl DerefMut for Together<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::As(conn) => conn,
            Self::In(tx) => tx,
        }
    }
}
