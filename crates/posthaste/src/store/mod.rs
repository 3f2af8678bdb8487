//! The port to the database: what the steps need, in one sealed trait with one folder per database.
//!
//! Stores never see a sink, never spawn tasks and decide nothing about retries: they are told settlements.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::id::Token;
use crate::lease::{Batch, DeliveryClaim, DeliverySettlement, Holder, Lane, LaneClaim, Reader, Trouble};
use crate::observe::Bell;
use crate::subscription::Subscription;

mod rows;
pub(crate) mod admin;
#[cfg(feature = "testing")]
pub(crate) mod testing;
pub(crate) use rows::isolated;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

/// A batch lost more often than this is materialised: its events become deliveries that are claimed one at a time.
const CLAIMS_BEFORE_MATERIALISING: u32 = 2;

/// What a claim of fresh events gave.
#[derive(Debug)]
pub(crate) enum Fresh {
    /// A page, to be settled as a whole.
    Batch(Batch),
    /// A page claimed by event: every event that is due is a delivery with its own lease. None: those of the page wait as deliveries.
    Deliveries(Vec<DeliveryClaim>),
    /// Nothing to claim now; perhaps the mark moved.
    Nothing,
    /// Somebody else was faster, the lane is not where it was, or only the mark moved: ask again.
    Again,
    /// The lane belongs to somebody else now.
    LaneLost,
    /// The lane has come to its stop mark and was closed.
    LaneFinished,
}

/// What a claimer remembers of a lane between two claims. Thrown away after any error: marks must not outlive the
/// connection they were taken on.
#[derive(Debug, Default)]
pub(crate) enum Cursor {
    #[default]
    Unknown,
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::PgCursor>),
    #[cfg(feature = "sqlite")]
    Sqlite(Box<sqlite::Ahead>),
}

impl Cursor {
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    /// Whether the lane ends soon: it can be closed only when everything in it is settled.
    pub(crate) fn stops(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(place) => place.stop.is_some(),
            Self::Unknown => false,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => false,
        }
    }

    /// Whether the last claim may have left something of its window.
    pub(crate) fn may_have_more(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(place) => place.has_open_window(),
            Self::Unknown => true,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => true,
        }
    }

    /// How many events were claimed that a crash of the server would make unclaimed.
    pub(crate) fn unflushed(&self) -> usize {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(place) => place.unflushed,
            Self::Unknown => 0,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => 0,
        }
    }

    /// Of these, so many are on disk by now.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(unused_variables, reason = "others have no claims to be undone")
    )]
    pub(crate) fn note_flushed(&mut self, events: usize) {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(place) => place.unflushed = place.unflushed.saturating_sub(events),
            Self::Unknown => {}
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {}
        }
    }

    /// Keys were parked: what was read ahead does not know it.
    pub(crate) fn forget_ahead(&mut self) {
        match self {
            Self::Unknown => {}
            #[cfg(feature = "postgres")]
            Self::Postgres(place) => place.forget_ahead(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => *self = Self::Unknown,
        }
    }
}

/// A batch as far as settling needs it: the events may have been handed on already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BatchRef {
    pub(crate) lane: Lane,
    pub(crate) number: i64,
    pub(crate) token: Token,
    pub(crate) inserted_at: Option<DateTime<Utc>>,
    /// How often it was recorded which of its events were handled.
    pub(crate) records: i32,
}

impl BatchRef {
    pub(crate) fn to(batch: &Batch) -> Self {
        let Batch { lane, number, token, inserted_at, records, .. } = *batch;
        Self { lane, number, token, inserted_at, records }
    }
}

/// How far a batch was handled, claimed by event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handled {
    /// Everything up to this event; 0: not even the first.
    pub(crate) to: i64,
    /// And these, beyond it.
    pub(crate) beyond: Vec<i64>,
}

/// How the head of a `strict` batch stands.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    /// Everything up to here is done.
    pub(crate) done_to: i64,
    pub(crate) attempts: u32,
    /// Steps that those attempts have finished.
    pub(crate) steps: u32,
    pub(crate) delay: Duration,
    pub(crate) error: Option<String>,
}

/// A sign that a worker is asleep, as far as the worker remembers it.
#[derive(Debug, Clone)]
pub(crate) struct Sign {
    /// Producers below this transaction may have read "no sign".
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "only PostgreSQL has producers that see an old sign")
    )]
    pub(crate) before: Option<String>,
}

/// A database that holds the log. Implemented here for PostgreSQL and SQLite, and by nobody else.
#[async_trait]
pub(crate) trait Store: Debug + Send + Sync {
    /// Creates the tables or brings them up to date.
    async fn migrate(&self) -> Result<()>;
    /// The SQL that `migrate` runs, for those who apply it with a tool of their own.
    fn migration_sql(&self) -> Vec<String>;
    /// The version of the tables that this program works with.
    fn schema_version(&self) -> usize;
    /// Fails, with what to do, unless deliveries may be made from this database.
    async fn check(&self) -> Result<()>;

    /// Creates the subscription or brings its declaration up to date.
    async fn declare(&self, subscription: &Subscription) -> Result<Reader>;
    /// The subscription as it stands now.
    async fn reader(&self, name: &str) -> Result<Reader>;
    /// All of them that can be read, as they stand now.
    async fn readers(&self) -> Result<Vec<Reader>>;

    /// Takes a free lane with all its unfinished batches; materialises those that were lost twice.
    async fn claim_lane(&self, reader: &Reader, holder: &Holder) -> Result<Option<LaneClaim>>;
    /// Claims the next page of a lane. `owner` is the lane's token; without one, claimers compete (order `none`).
    async fn claim_fresh(
        &self,
        reader: &Reader,
        lane: Lane,
        owner: Option<Token>,
        holder: &Holder,
        cursor: &mut Cursor,
    ) -> Result<Fresh>;
    /// Where a lane stands, and after that the unfinished batches its owner holds: among them are claims whose answer was
    /// lost. One that happens later still has the number of the next claim, which is refused then. Stores that share the
    /// process with their database have no answer to lose.
    async fn held_batches(
        &self,
        _reader: &Reader,
        _lane: Lane,
        _owner: Token,
        _cursor: &mut Cursor,
    ) -> Result<Vec<Batch>> {
        Ok(Vec::new())
    }
    /// Order `none`: takes a batch whose lease ran out, or materialises it if it was lost twice (`None` then).
    async fn reclaim_batch(&self, reader: &Reader, holder: &Holder) -> Result<Option<Batch>>;
    /// Claims due deliveries, taking back expired ones and burying exhausted ones first.
    async fn claim_deliveries(
        &self,
        reader: &Reader,
        holder: &Holder,
        limit: u32,
        solo_allowed: bool,
    ) -> Result<Vec<DeliveryClaim>>;
    /// The lane competing claimers read from (order `none`).
    async fn open_lane(&self, reader: &Reader) -> Result<Lane>;

    /// Settles a batch: what is not in `troubles` was delivered. `false`: the lease was lost, nothing was changed.
    async fn settle_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool>;
    /// Settles a batch in which everything was delivered, while the next one is claimed. With `flush` it waits until that
    /// is on disk, and all claims before it.
    async fn settle_delivered(
        &self,
        reader: &Reader,
        batch: BatchRef,
        holder: &Holder,
        _flush: bool,
    ) -> Result<bool> {
        self.settle_batch(reader, batch, &[], holder).await
    }
    /// Claimed by event: records which events of a batch were handled. `false`: the lease was lost, nothing was changed.
    /// Those of them that were not delivered are in `troubles`.
    async fn record_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        handled: &Handled,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool>;
    /// Order `strict`: records progress within a batch and what holds it. `false`: the lease was lost.
    /// The dead letters it met on the way commit together with that.
    async fn hold_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        hold: &Hold,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool>;
    /// Settles deliveries; returns the seqs whose lease was still held.
    async fn settle_deliveries(
        &self,
        reader: &Reader,
        settlements: &[DeliverySettlement],
    ) -> Result<Vec<i64>>;

    /// Renews leases; returns the tokens that still hold something.
    async fn renew(&self, reader: &Reader, tokens: &[Token], lease: Duration) -> Result<Vec<Token>>;
    /// Gives a lane back.
    async fn release_lane(&self, reader: &Reader, lane: Lane, token: Token) -> Result<()>;
    /// Says that this worker is alive; returns how many are.
    async fn announce_worker(&self, reader: &Reader, holder: &Holder) -> Result<u32>;
    /// Says that this worker has stopped, so that the others share its lanes at once.
    async fn dismiss_worker(&self, reader: &Reader, holder: &Holder) -> Result<()>;

    /// How long until a delivery is due or a lease may have run out.
    /// Without rows that are claimed alone, if such a one is being handled already.
    async fn next_due(&self, reader: &Reader, solo_allowed: bool) -> Result<Option<Duration>>;
    /// Rings `bell` whenever something may have been enqueued, until stopped. Survives lost connections.
    async fn watch(&self, bell: Arc<Bell>, stop: CancellationToken);
    /// Asks producers to ring, for this long.
    async fn put_up_sign(&self, lasting: Duration) -> Result<Sign>;
    /// Whether every producer that may have missed the sign has ended.
    async fn all_ended(&self, sign: &Sign) -> Result<bool>;
    /// What [`all_ended`](Self::all_ended) needs to tell whether everybody who has enqueued something by now has ended.
    async fn draw_xid(&self) -> Result<Sign>;
}
