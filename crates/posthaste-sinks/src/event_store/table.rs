//! The table's name, and the statements with it in its place.

/// A name such as `event_store` or `archive.events`, checked, and quoted wherever it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableName {
    written: String,
    quoted: String,
    quoted_schema: Option<String>,
}

/// PostgreSQL cuts longer names off, so two of them could mean one table.
const LONGEST: usize = 63;

impl TableName {
    /// Letters, digits, `_` and `$`, with a schema before a dot or without. The error is a sentence.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('.').collect();
        if parts.len() > 2 {
            return Err(format!("`{text}` has more than one dot; write table or schema.table"));
        }
        for part in &parts {
            check_part(part).map_err(|problem| format!("`{text}`: {problem}"))?;
        }
        let quoted: Vec<String> = parts.iter().map(|part| format!("\"{part}\"")).collect();
        let quoted_schema = quoted.first().filter(|_| quoted.len() > 1).cloned();
        Ok(Self { written: text.to_owned(), quoted: quoted.join("."), quoted_schema })
    }

    /// As in the configuration, for people.
    pub(super) fn as_str(&self) -> &str {
        &self.written
    }

    /// For statements that take the name as a value.
    pub(super) fn quoted(&self) -> &str {
        &self.quoted
    }

    /// The schema, if it was written; otherwise the search path leads to it.
    pub(super) fn quoted_schema(&self) -> Option<&str> {
        self.quoted_schema.as_deref()
    }
}

fn check_part(part: &str) -> Result<(), String> {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let other = |c: char| first(c) || c.is_ascii_digit() || c == '$';
    if !part.starts_with(first) || !part.chars().all(other) {
        return Err("a name is letters, digits, _ and $, and does not begin with a digit".to_owned());
    }
    match part.len() {
        len if len > LONGEST => Err(format!("the name has {len} bytes; PostgreSQL keeps {LONGEST}")),
        _ => Ok(()),
    }
}

/// What is sent to the server.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) append: String,
    pub(super) columns: String,
    pub(super) rehearse: String,
    pub(super) create_table: String,
}

pub(super) const TAKE_TURNS: &str = include_str!("sql/take_turns.sql");
pub(super) const STATE: &str = include_str!("sql/state.sql");

impl Statements {
    pub(super) fn about(table: &TableName) -> Self {
        let with_name = |text: &str| text.replace("{table}", table.quoted());
        Self {
            append: with_name(include_str!("sql/append.sql")),
            columns: with_name(include_str!("sql/columns.sql")),
            rehearse: with_name(include_str!("sql/rehearse.sql")),
            create_table: with_name(include_str!("sql/create_table.sql")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_cannot_smuggle_sql() {
        let quoted = |text| TableName::parse(text).map(|name| name.quoted().to_owned());
        assert_eq!(quoted("event_store").as_deref(), Ok("\"event_store\""));
        assert_eq!(quoted("Archive.order$1").as_deref(), Ok("\"Archive\".\"order$1\""));
        let long = "x".repeat(64);
        for bad in ["", "a.b.c", ".a", "a.", "1a", "a b", "a\"b", "a;drop table x", "größe", long.as_str()]
        {
            assert!(quoted(bad).is_err(), "{bad}");
        }
    }
}
