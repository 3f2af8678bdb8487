//! What an error of PostgreSQL means: the module's table as a function.

use std::io::ErrorKind;

use posthaste::Outcome;

use super::settings::EventStoreSettings;

/// Why an append failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// One of the rows is refused; alone, it is dead for this reason.
    Row(String),
    /// Said about the server or about a row: a trigger or a function can raise what it likes. A check tells.
    Doubtful(String),
    /// Not finished in time, because of the server or of a row.
    Silence(String),
    /// Not about a single row.
    All(Outcome),
}

/// Reads an error of the client library.
pub(super) fn failure(error: &sqlx::Error, settings: &EventStoreSettings) -> Failure {
    let sentence = sentence(error);
    match error {
        sqlx::Error::Database(from_server) => {
            let code = from_server.code().unwrap_or_default();
            by_code(&code, format!("{sentence} ({code})"), settings)
        }
        sqlx::Error::Io(late) if late.kind() == ErrorKind::TimedOut => Failure::Silence(sentence),
        // A value that cannot be written into a message at all.
        sqlx::Error::Encode(_) => Failure::Row(sentence),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::Configuration(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Failure::All(Outcome::unavailable(sentence)),
        _ => Failure::All(Outcome::retry(sentence)),
    }
}

/// Reads an SQLSTATE.
fn by_code(code: &str, sentence: String, settings: &EventStoreSettings) -> Failure {
    let away = |sentence: String| Failure::All(Outcome::unavailable(sentence));
    let class = code.get(..2).unwrap_or_default();
    match (class, code) {
        ("22" | "23" | "44" | "54", _) | (_, "P0001") => Failure::Row(sentence),
        ("40", _) => Failure::All(Outcome::retry(sentence)),
        (_, "57014" | "55P03") => Failure::Silence(sentence),
        (_, "25006") => away(format!("{sentence}; give the address of the primary")),
        ("08" | "28" | "3D" | "53" | "57" | "58", _) => away(sentence),
        _ => Failure::Doubtful(format!("{sentence}{}", remedy(code, settings))),
    }
}

/// What to do if it is the table that is wrong.
fn remedy(code: &str, settings: &EventStoreSettings) -> String {
    match (code.get(..2).unwrap_or_default(), code) {
        (_, "42P01" | "3F000") => format!("; {}", missing(settings)),
        (_, "42501") => "; grant the rights that docs/reference/sinks/event_store.md names".to_owned(),
        ("42", _) => format!(
            "; the table {} must have the columns of docs/reference/sinks/event_store.md",
            settings.table()
        ),
        _ => String::new(),
    }
}

fn missing(settings: &EventStoreSettings) -> String {
    let table = settings.table();
    match (settings.creates_table(), table.split_once('.')) {
        (true, Some((schema, _))) => format!("create the schema {schema} first"),
        (true, None) => "the search_path of this user must lead to a schema".to_owned(),
        (false, _) => {
            format!("create {table} as in docs/reference/sinks/event_store.md, or set create_table = true")
        }
    }
}

/// The server's message with its detail, which names the row that was refused.
fn sentence(error: &sqlx::Error) -> String {
    let sqlx::Error::Database(from_server) = error else { return error.to_string() };
    let detail = from_server
        .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
        .and_then(sqlx::postgres::PgDatabaseError::detail);
    match detail {
        // The detail of a refused row repeats it, and a payload can be long.
        Some(detail) => {
            format!("{}: {}", from_server.message(), detail.chars().take(300).collect::<String>())
        }
        None => from_server.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(code: &str, create_table: bool) -> (&'static str, String) {
        let settings = EventStoreSettings::to("archive.events", create_table);
        match by_code(code, "said".to_owned(), &settings) {
            Failure::Row(reason) => ("dead", reason),
            Failure::Doubtful(reason) => ("doubtful", reason),
            Failure::Silence(reason) => ("silence", reason),
            Failure::All(Outcome::Retry { reason, .. }) => ("retry", reason),
            Failure::All(Outcome::Unavailable { reason }) => ("unavailable", reason),
            Failure::All(other) => ("unknown", format!("{other:?}")),
        }
    }

    #[test]
    fn every_row_of_the_table() {
        let rows: [(&str, &[&str]); 5] = [
            ("dead", &["22021", "22P05", "23502", "23503", "23505", "23514", "44000", "54000", "P0001"]),
            ("retry", &["40001", "40P01"]),
            ("silence", &["57014", "55P03"]),
            (
                "unavailable",
                &[
                    "08006", "25006", "28P01", "28000", "3D000", "53100", "53200", "53300", "57P01", "57P02",
                    "57P03", "57P04", "58030",
                ],
            ),
            (
                "doubtful",
                &[
                    "42501", "42703", "42P01", "3F000", "55000", "XX000", "XX001", "P0004", "25P02", "SHOP1",
                    "",
                ],
            ),
        ];
        for (expected, codes) in rows {
            for code in codes {
                assert_eq!(meaning(code, true).0, expected, "{code}");
            }
        }
        let said = |code, create_table| meaning(code, create_table).1;
        assert_eq!(said("XX000", true), "said");
        assert!(said("25006", true).contains("the primary"));
        assert!(said("42501", true).contains("grant the rights"));
        assert!(said("42703", true).contains("must have the columns"));
        assert!(said("42P01", false).contains("set create_table = true"));
        assert!(said("3F000", true).contains("create the schema archive first"));
    }

    #[test]
    fn a_connection_that_fails_is_not_the_events_fault() {
        let settings = EventStoreSettings::to("events", true);
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        for error in [sqlx::Error::Io(refused), sqlx::Error::PoolTimedOut, sqlx::Error::PoolClosed] {
            assert!(
                matches!(failure(&error, &settings), Failure::All(Outcome::Unavailable { .. })),
                "{error}"
            );
        }
        let late = sqlx::Error::Io(std::io::Error::from(ErrorKind::TimedOut));
        assert!(matches!(failure(&late, &settings), Failure::Silence(_)));
        let unreadable = sqlx::Error::Encode("too long".into());
        assert!(matches!(failure(&unreadable, &settings), Failure::Row(_)));
        assert!(matches!(failure(&sqlx::Error::RowNotFound, &settings), Failure::All(Outcome::Retry { .. })));
    }
}
