//! Private PostgreSQL servers: where their programs come from and how one is started. Clients are not our business.

mod npm;
mod programs;
mod server;

pub(crate) use npm::{Skip, current};
pub(crate) use programs::{Programs, distribution};
pub(crate) use server::Server;
