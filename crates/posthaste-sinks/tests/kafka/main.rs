//! The sink suite on Kafka, and what only Kafka can do wrong.

#![cfg(feature = "kafka")]

mod bench;
mod consumer;
mod faults;
mod outages;
mod real;
mod security;

posthaste_testkit::sink_suite!(bench::Kafka);
