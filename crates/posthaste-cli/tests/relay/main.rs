//! The built binary as an operator meets it: its configuration, its checks, and the relay on real databases.

mod support;
mod log;

mod mistakes;
mod config;
mod setup;
mod database;
mod pooler;
mod delivering;
mod stopping;
mod reloading;
mod health;
mod canary;
mod hostile;
mod sharing;
mod registry;
mod doctor;
