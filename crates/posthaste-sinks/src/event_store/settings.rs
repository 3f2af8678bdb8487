//! What is configured: where the database is, and which table.

use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use super::table::TableName;
use crate::secret::Secret;
use crate::section::Section;
use crate::tls::Tls;

/// What was configured, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventStoreSettings {
    url: Secret,
    password: Option<Secret>,
    tls: Option<Tls>,
    table: TableName,
    create_table: bool,
    pub(crate) timeout: Duration,
}

const EXAMPLE: &str = "{ env = \"EVENT_STORE_URL\" }";
const TIMEOUT: Duration = Duration::from_secs(10);

impl EventStoreSettings {
    /// Reads the sink's table.
    pub fn validate(section: &Section<'_>) -> Option<Self> {
        let timeouts = Duration::from_millis(100)..=Duration::from_secs(300);
        let url = url(section);
        let (password, table) = (section.secret("password"), table(section));
        let create_table = section.flag("create_table").unwrap_or(true);
        let timeout = section.duration("timeout", timeouts).unwrap_or(TIMEOUT);
        let options = url.as_ref().and_then(|url| parse(section, url));
        let tls = tls(section, options.as_ref(), url.as_ref());
        options?;
        Some(Self { url: url?, password, tls, table: table?, create_table, timeout })
    }

    /// How to connect. The url was parsed before, so that an error can only come from files that have changed since.
    pub(super) fn options(&self) -> Result<PgConnectOptions, String> {
        let options: PgConnectOptions = self.url.expose().parse().map_err(|error| format!("url: {error}"))?;
        let options = options.application_name("posthaste event_store").disable_statement_logging();
        let options = match &self.password {
            Some(password) => options.password(password.expose()),
            None => options,
        };
        Ok(self.tls.iter().fold(options, encrypted))
    }

    /// The table, as it was written.
    pub(super) fn table(&self) -> &str {
        self.table.as_str()
    }

    pub(super) fn table_name(&self) -> &TableName {
        &self.table
    }

    pub(super) fn creates_table(&self) -> bool {
        self.create_table
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    #[cfg(test)]
    pub(super) fn to(table: &str, create_table: bool) -> Self {
        let table = TableName::parse(table).expect("a name");
        let url = Secret::new("postgres://localhost/test");
        Self { url, password: None, tls: None, table, create_table, timeout: TIMEOUT }
    }
}

fn url(section: &Section<'_>) -> Option<Secret> {
    section.required("url", EXAMPLE)?;
    let literal = section.value("url").is_some_and(serde_json::Value::is_string);
    let url = section.text_or_secret("url")?;
    if literal && has_password(url.expose()) {
        let remedy = format!(
            "a password does not belong in the file; write url = {EXAMPLE}, or leave it out of the url and write password = {{ env = \"VARIABLE\" }}"
        );
        section.problem("url", remedy);
        return None;
    }
    Some(url)
}

/// Between the user and the host, or as a parameter.
fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let user = place.rsplit_once('@').map(|(user, _)| user);
    user.is_some_and(|user| user.contains(':')) || parameters.split('&').any(|p| p.starts_with("password="))
}

/// The error of the parser is not shown: it could repeat the url.
fn parse(section: &Section<'_>, url: &Secret) -> Option<PgConnectOptions> {
    let schemes = ["postgres://", "postgresql://"];
    let ours = schemes.iter().any(|scheme| url.expose().starts_with(scheme));
    let options = url.expose().parse().ok().filter(|_| ours);
    if options.is_none() {
        section.problem("url", "expected postgres://user@host:5432/database");
    }
    options
}

fn table(section: &Section<'_>) -> Option<TableName> {
    let text = match section.value("table") {
        Some(_) => section.text("table")?,
        None => "event_store".to_owned(),
    };
    TableName::parse(&text).map_err(|sentence| section.problem("table", sentence)).ok()
}

/// `tls` decides if it is written; otherwise `sslmode` in the url, and if there is none either, the host.
fn tls(section: &Section<'_>, options: Option<&PgConnectOptions>, url: Option<&Secret>) -> Option<Tls> {
    let here =
        |options: &PgConnectOptions| options.get_socket().is_some() || options.get_host().starts_with('/');
    let host =
        options.map_or("localhost", |options| if here(options) { "localhost" } else { options.get_host() });
    let tls = Tls::validate(section, [host]);
    let in_url =
        url.is_some_and(|url| url.expose().contains("sslmode=") || url.expose().contains("ssl-mode="));
    (section.has("tls") || !in_url).then_some(tls)
}

fn encrypted(options: PgConnectOptions, tls: &Tls) -> PgConnectOptions {
    if !tls.on {
        return options.ssl_mode(PgSslMode::Disable);
    }
    let options = options.ssl_mode(PgSslMode::VerifyFull);
    let options = tls.ca_file.iter().fold(options, |options, file| options.ssl_root_cert(file));
    tls.identity
        .iter()
        .fold(options, |options, (certificate, key)| options.ssl_client_cert(certificate).ssl_client_key(key))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::problems::Problems;
    use crate::section::Surroundings;

    fn check(value: Value) -> (Option<EventStoreSettings>, Vec<String>) {
        let (problems, mut surroundings) = (Problems::default(), Surroundings::default());
        surroundings.variables.insert("URL".into(), "postgres://app:t0ps3cret@db.example/log".into());
        surroundings.variables.insert("PASSWORD".into(), "t0ps3cret".into());
        let Value::Object(fields) = value else { panic!("a table") };
        let section = Section::new("sink", &fields, &problems, &surroundings);
        let settings = EventStoreSettings::validate(&section);
        section.finish();
        (settings, problems.into_vec().iter().map(ToString::to_string).collect())
    }

    fn mode(settings: &EventStoreSettings) -> String {
        format!("{:?}", settings.options().expect("options").get_ssl_mode())
    }

    #[test]
    fn a_good_table() {
        let (settings, problems) = check(json!({ "url": { "env": "URL" } }));
        assert_eq!(problems, Vec::<String>::new());
        let settings = settings.expect("good");
        assert_eq!((settings.table(), settings.creates_table()), ("event_store", true));
        assert_eq!(mode(&settings), "VerifyFull", "another machine");
        assert!(!format!("{settings:?}").contains("t0ps3cret"));
        let everything = json!({ "url": "postgres://app@127.0.0.1/log", "password": { "env": "PASSWORD" },
            "table": "archive.events", "create_table": false, "timeout": "3s" });
        let (settings, problems) = check(everything);
        assert_eq!(problems, Vec::<String>::new());
        let settings = settings.expect("good");
        assert_eq!((settings.table(), settings.creates_table()), ("archive.events", false));
        assert_eq!((mode(&settings).as_str(), settings.timeout()), ("Disable", Duration::from_secs(3)));
        assert!(!format!("{settings:?}").contains("t0ps3cret"));
    }

    #[test]
    fn who_decides_about_encryption() {
        let of = |value| mode(&check(value).0.expect("good"));
        assert_eq!(of(json!({ "url": "postgres://a@db.example/x?sslmode=require" })), "Require");
        assert_eq!(
            of(json!({ "url": "postgres://a@db.example/x?sslmode=require", "tls": true })),
            "VerifyFull"
        );
        assert_eq!(of(json!({ "url": "postgres://a@db.example/x", "tls": false })), "Disable");
        assert_eq!(of(json!({ "url": "postgres://a@%2Frun%2Fpostgresql/x" })), "Disable");
        assert_eq!(of(json!({ "url": "postgres://a@localhost/x", "tls": {} })), "VerifyFull");
    }

    #[test]
    fn every_mistake_with_its_sentence() {
        let (settings, problems) = check(json!({
            "url": "postgres://app:t0ps3cret@db.example/log", "password": "t0ps3cret", "table": "a.b.c",
            "create_table": "perhaps", "timeout": "1ms", "tabel": "x",
        }));
        assert_eq!(settings, None);
        assert_eq!(problems.len(), 6, "{problems:#?}");
        assert!(
            problems[0].starts_with("sink.url: a password does not belong in the file; write url = { env")
        );
        assert!(problems[1].starts_with("sink.password: secrets do not belong in the file"));
        assert_eq!(problems[2], "sink.table: `a.b.c` has more than one dot; write table or schema.table");
        assert_eq!(problems[3], "sink.create_table: expected true or false, got \"perhaps\"");
        assert_eq!(problems[4], "sink.timeout: expected 100ms to 5m, got \"1ms\"");
        assert_eq!(problems[5], "sink.tabel: is not known here; did you mean `table`?");
        assert!(!problems.concat().contains("t0ps3cret"));
        let (_, problems) = check(json!({}));
        assert_eq!(problems, ["sink.url: is missing; write for example url = { env = \"EVENT_STORE_URL\" }"]);
        for bad in ["mysql://db/x", "db.example", "postgres://db:notaport/x"] {
            let (_, problems) = check(json!({ "url": bad }));
            assert_eq!(problems, ["sink.url: expected postgres://user@host:5432/database"], "{bad}");
        }
        let (_, problems) = check(json!({ "url": "postgres://db.example/x?user=a&password=b" }));
        assert!(problems[0].contains("a password does not belong"), "{problems:?}");
    }
}
