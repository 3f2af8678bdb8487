//! Statements.
