//! `event_store`: appends events to a table in PostgreSQL, each once. Often the first of two steps: stored, then published.
//!
//! A page is one statement in one transaction, so it is stored as a whole or not at all. Appends to a table take turns,
//! so that positions become visible in their order: a reader that remembers the last position misses nothing.
//!
//! | what PostgreSQL says | outcome |
//! |---|---|
//! | committed, whether a row was new or its id was there before | delivered |
//! | this row is refused: data exception (22), constraint (23), limit (54), check option (44), `raise` in a trigger (P0001) | dead, with the server's sentence; the rest of the page is stored without it |
//! | the body has more than 512 MiB | dead, before anything is sent |
//! | in structured form, the source needs what the event has not | dead |
//! | serialization failure, deadlock (class 40) | retry |
//! | the connection is refused or lost; shutting down (57P), another class 08 | unavailable |
//! | too many connections, disk full, out of memory (53), input or output errors (58) | unavailable |
//! | wrong password or user (28), no such database (3D000) | unavailable |
//! | read-only: a standby, or a database that was made so (25006) | unavailable |
//! | no such table or schema, other columns, not allowed (42, 3F000), internal errors (XX), anything else; and a check fails too | unavailable, with the remedy |
//! | the same, but a check passes: a trigger or a function raised it for a row | the page is halved until the row is found, which is retried |
//! | not finished in time, cancelled (57014), lock timeout (55P03); and a check fails too | unavailable |
//! | the same, but a check passes | each row goes alone; one that is not finished alone is retried |
//! | a second row fails in one of these ways, and not one was stored | unavailable, all of them |
//! | the time of the page is over | unavailable, not sent |
//!
//! A check is an append of nothing, with its turn and its locks.

mod table;
mod settings;
mod errors;
mod rows;
mod rest;
mod state;
mod link;
mod sink;

pub use settings::EventStoreSettings;
pub use sink::EventStoreSink;
