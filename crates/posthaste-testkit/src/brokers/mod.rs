//! Brokers of one's own: started in a temporary folder on this machine, ended with the test. No client libraries here.

pub mod certificate;
pub mod nats;
pub mod redis;
//! Servers for sinks, as tests start them.

pub mod kafka;
