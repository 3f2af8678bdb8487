//! Failpoints: the places between a claim and the end of its settlement at which a trial may look, wait, or kill the worker.
//!
//! They stand before and after each wait for the database or the receiver, and inside its transactions. Without the feature
//! `failpoints` nothing is left of them. With it they do nothing until somebody installs a hook.

/// One list for everything: a point that is not in it has no name and cannot be passed, and one that nobody passes is dead
/// code.
macro_rules! points {
    ($($(#[$meta:meta])* $point:ident = $name:literal,)+) => {
        /// A place in the code.
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum Point { $($(#[$meta])* $point,)+ }

        #[cfg(feature = "failpoints")]
        impl Point {
            fn name(self) -> &'static str {
                match self { $(Self::$point => $name,)+ }
            }
        }

        /// The names of all failpoints, in the order in which an event may meet them.
        #[cfg(feature = "failpoints")]
        pub const FAILPOINTS: &[&str] = &[$($name,)+];
    };
}

points! {
    // A lane is taken, perhaps with what a lost worker has not finished.
    TakingLane = "taking-lane",
    /// Within the transaction: the lane is ours, its unfinished batches not yet.
    LaneMarked = "lane-marked",
    /// Within the transaction: all is ours.
    LaneReread = "lane-reread",
    LaneTaken = "lane-taken",

    // A batch of a lost worker is claimed again, where many claim from one lane.
    Reclaiming = "reclaiming",
    /// Within the transaction.
    BatchReread = "batch-reread",
    Reclaimed = "reclaimed",

    // Fresh events are claimed.
    Claiming = "claiming",
    /// The end of a window is fixed, and so far nobody else knows it.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "a window is more than a seq only in PostgreSQL"))]
    WindowFixed = "window-fixed",
    PageRead = "page-read",
    /// The batch is inserted: within the transaction, or, if it is one statement, before anybody knows the answer.
    BatchInserted = "batch-inserted",
    Claimed = "claimed",

    // Deliveries that are due are claimed.
    ClaimingDue = "claiming-due",
    /// Within the transaction: what lost workers held is taken back.
    DueExpired = "due-expired",
    /// Within the transaction: what is due is ours.
    DueMarked = "due-marked",
    DueClaimed = "due-claimed",

    // The receiver has the events.
    Renewing = "renewing",
    Renewed = "renewed",
    Delivering = "delivering",
    Delivered = "delivered",

    // A transactional handler settles by itself.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only PostgreSQL has transactional handlers"))]
    HandlerReturned = "handler-returned",
    /// Within the handler's transaction.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only PostgreSQL has transactional handlers"))]
    SettledWithin = "settled-within",
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only PostgreSQL has transactional handlers"))]
    HandlerCommitted = "handler-committed",

    // A batch remembers which of its events were handled, while others run.
    Recording = "recording",
    /// Within the transaction: what failed is not written yet.
    ProgressNoted = "progress-noted",
    Recorded = "recorded",

    // A `strict` subscription remembers how far it has come and what holds it.
    Holding = "holding",
    /// Within the transaction: a dead letter is not written yet.
    HoldNoted = "hold-noted",
    Held = "held",

    // A batch is settled.
    Settling = "settling",
    /// Within the transaction: the batch is finished, what failed of it is not written yet.
    BatchFinished = "batch-finished",
    /// Within the transaction: what failed has its delivery rows, dead letters among them. Also after `progress-noted` and
    /// `hold-noted`, and where a batch is taken apart because it was lost twice.
    TroublesWritten = "troubles-written",
    Settled = "settled",

    // Deliveries are settled.
    SettlingDue = "settling-due",
    /// Within the transaction: what was delivered is gone, what failed is not written yet.
    DueDeleted = "due-deleted",
    /// Within the transaction: the next of each key may go on.
    DuePromoted = "due-promoted",
    DueSettled = "due-settled",
}

#[cfg(feature = "failpoints")]
type Hook = Box<dyn Fn(&'static str) + Send + Sync>;

#[cfg(feature = "failpoints")]
static HOOK: std::sync::OnceLock<Hook> = std::sync::OnceLock::new();

/// Calls `hook` with its name whenever this process reaches a failpoint. The worker waits for it, so a hook may also sleep.
/// There is one hook for the life of a process. `false`: it has another one already.
#[cfg(feature = "failpoints")]
#[must_use = "only the first hook of a process is called"]
pub fn on_failpoint(hook: impl Fn(&'static str) + Send + Sync + 'static) -> bool {
    HOOK.set(Box::new(hook)).is_ok()
}

#[cfg(feature = "failpoints")]
pub(crate) fn reached(point: Point) {
    if let Some(hook) = HOOK.get() {
        hook(point.name());
    }
}

#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn reached(_: Point) {}
