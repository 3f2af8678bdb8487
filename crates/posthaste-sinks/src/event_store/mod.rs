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
//! | the connection is refused, lost or too slow; shutting down (57P), cancelled (57014), lock timeout (55) | unavailable |
//! | too many connections, disk full, out of memory (53), input or output errors (58, XX) | unavailable |
//! | wrong password, not allowed (28, 42501), no such database (3D000) | unavailable |
//! | read-only: a standby, or a database that was made so (25006) | unavailable |
//! | no such table or schema, or a table with other columns (42, 3F000) | unavailable, with the remedy |
//! | anything else | retry |

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
