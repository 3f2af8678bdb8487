//! Private servers for tests, found on this machine: a folder and ports of their own, gone with the test.
//!
//! Client libraries stay out of here: a test brings its own.

pub mod moto;
pub mod rabbitmq;
