//! The exit codes, all of them, and which of them a refusal of the database is.

/// What lies above 64 follows sysexits.h, what lies above 128 the shell's custom.
///
/// | code | meaning |
/// |---|---|
/// | 0 | done |
/// | 1 | could not be done, and the sentence on stderr says why |
/// | 2 | the command line was not understood (clap's own), or asks for something that cannot be |
/// | 3 | what was named is not there |
/// | 4 | `check`, `doctor` or `status` found something that works against delivery |
/// | 69 | the database is away, locked or too slow; the same command may succeed later |
/// | 77 | the database refuses: wrong password, missing privilege |
/// | 78 | the configuration has mistakes, or the database is not prepared (no tables, wrong version, a replica) |
/// | 130 | ended by a second signal |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    CheckFailed = 4,
    Unavailable = 69,
    Permission = 77,
    Configuration = 78,
    Interrupted = 130,
}

impl Code {
    /// The one for what the driver says, at the first connection as well as in the middle of a command.
    pub(crate) fn of(error: &sqlx::Error) -> Self {
        use sqlx::Error as E;
        match error {
            E::Database(error) => Self::said(&error.code().unwrap_or_default()),
            E::Io(error) if is_certificate(&error.to_string()) => Self::Configuration,
            E::Tls(_) => Self::Configuration,
            E::Io(_) | E::Protocol(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed => {
                Self::Unavailable
            }
            _ => Self::Failed,
        }
    }

    /// By the code of the server: five characters are PostgreSQL's, up to four digits are SQLite's.
    pub(crate) fn said(code: &str) -> Self {
        match code {
            // wrong password, no entry in pg_hba.conf; missing privilege
            "28P01" | "28000" | "42501" => Self::Permission,
            // no such database; a server or session that takes no writes
            "3D000" | "25006" => Self::Configuration,
            // a prepared statement that is there already, or not there: a pooler stands in between
            "42P05" | "26000" => Self::Configuration,
            // SQLite: not a database
            "26" => Self::Configuration,
            // SQLite: cannot be opened; read-only
            "14" | "8" | "1032" => Self::Permission,
            code if passes(code) => Self::Unavailable,
            _ => Self::Failed,
        }
    }
}

/// PostgreSQL: starting up, shutting down, out of connections or memory, connection lost, conflicts, a statement, a lock or
/// a transaction that took too long. SQLite: busy, locked, disk full.
fn passes(code: &str) -> bool {
    let classes = ["57P", "53", "08", "40"];
    let too_long = ["57014", "55P03", "25P03", "25P04"];
    let sqlite = ["5", "6", "13", "261", "262", "517", "518", "773"];
    let postgres = code.len() == 5 && classes.iter().any(|class| code.starts_with(class));
    postgres || too_long.contains(&code) || sqlite.contains(&code)
}

pub(crate) fn is_certificate(text: &str) -> bool {
    text.contains("certificate") || text.contains("UnknownIssuer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_told_from_what_stays() {
        for code in
            ["57P01", "57P03", "53300", "53100", "08006", "40001", "57014", "55P03", "5", "6", "517", "13"]
        {
            assert_eq!(Code::said(code), Code::Unavailable, "{code}");
        }
        for code in ["42601", "22P02", "XX000", "11", "1", "40", "53", "08"] {
            assert_eq!(Code::said(code), Code::Failed, "{code}");
        }
        assert_eq!(Code::said("42501"), Code::Permission);
        assert_eq!(Code::said("25006"), Code::Configuration);
    }
}
