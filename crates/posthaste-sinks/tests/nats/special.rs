//! What only NATS does.

use super::*;
