//! Placeholder.
#![expect(dead_code, reason = "assembly in progress")]

// 1 vocabulary: plain data and pure rules, no I/O
mod error;
mod id;
mod event;
mod outcome;
mod retry;
mod subscription;
mod lease;
mod observe;

// 2 ports: what the flow needs from outside
mod store;
