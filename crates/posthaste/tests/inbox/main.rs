//! The inbox guard of consumers: one suite for the three stores, what is special about each, and dead letters.
//!
//! | fault of the designs before | where it is tried |
//! |---|---|
//! | B23 marked, died, effect lost | suite: `a_copy_whose_consumer_died_is_handled_by_the_next`; control on a plain SETNX |
//! | B24 acknowledged beside a copy that fails | suite: `a_copy_beside_a_failing_one_is_handled`; control on a plain SETNX |
//! | B25 replay after the time to live | suite: `an_event_is_forgotten_after_its_time`: it runs again, as the guide says |

#![cfg(all(feature = "redis", feature = "postgres", feature = "sqlite"))]

mod bench;
mod suite;
mod redis;
mod redis_kills;
mod postgres;
mod sqlite;
mod letters;
