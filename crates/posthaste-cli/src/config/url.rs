//! Database URLs in front of people: without passwords, and with their mistakes named.

use std::path::Path;
use std::str::FromStr;

use posthaste_sinks::{is_this_machine, nearest};
use sqlx::postgres::PgConnectOptions;

/// The parameters of a PostgreSQL URL. The driver would ignore others, and print them with their values.
const PARAMETERS: [&str; 14] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
    "statement-cache-capacity",
    "ssl-mode",
];

/// The URL with `***` instead of a password. Rather too much is hidden than too little: a password that was not encoded
/// may hold any character that means something in a URL.
pub(crate) fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return without_slashes(url) };
    let (user, place) = rest.rsplit_once('@').map_or(("", rest), |(user, place)| (user, place));
    let (place, query) = place.split_once('?').unwrap_or((place, ""));
    let mut shown = format!("{scheme}://{}{place}", mask_user(user));
    let parameters: Vec<String> = query.split('&').filter(|pair| !pair.is_empty()).map(mask_pair).collect();
    if !parameters.is_empty() {
        shown = format!("{shown}?{}", parameters.join("&"));
    }
    shown
}

fn without_slashes(url: &str) -> String {
    match url.split_once(':') {
        Some(("sqlite", _)) | None => url.to_owned(),
        Some((scheme, _)) => format!("{scheme}:***"),
    }
}

/// Everything between the first colon and the last `@`: a password may hold an `@` of its own.
fn mask_user(user: &str) -> String {
    match user.split_once(':') {
        Some((name, _)) => format!("{name}:***@"),
        None if user.is_empty() => String::new(),
        None if user.contains('?') => "***@".to_owned(),
        None => format!("{user}@"),
    }
}

fn mask_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some(("password", _)) => "password=***".to_owned(),
        _ => pair.to_owned(),
    }
}

/// What is wrong with a PostgreSQL URL, in a sentence without its password.
pub(super) fn check_postgres(url: &str) -> Result<(), String> {
    // Then what looks like parameters may be the rest of a password, and no name of them may be said.
    if url.split_once('?').is_some_and(|(_, query)| query.contains('@')) {
        return Err(unusable(url));
    }
    let names = parameters(url).map(|(name, _)| name);
    for name in names.filter(|name| !name.starts_with("options[")) {
        if !PARAMETERS.contains(&name) {
            return Err(match nearest(name, &PARAMETERS) {
                Some(near) => format!("the URL's parameter `{name}` is not known; did you mean `{near}`?"),
                None => {
                    format!("the URL's parameter `{name}` is not known; there are {}", PARAMETERS.join(", "))
                }
            });
        }
    }
    missing_file(url)?;
    // A password may hold characters that end the authority early; what follows would then be taken for the port.
    match PgConnectOptions::from_str(url) {
        Ok(_) => Ok(()),
        Err(_) => Err(unusable(url)),
    }
}

fn unusable(url: &str) -> String {
    format!(
        "`{}` is not a usable URL; write postgres://user@host:5432/database, with special characters of a password \
         percent-encoded (@ as %40, / as %2F, ? as %3F)",
        masked(url)
    )
}

/// Certificates are read when connecting, where a missing file would look like a missing server.
fn missing_file(url: &str) -> Result<(), String> {
    let mut files = parameters(url).filter(|(name, _)| matches!(*name, "sslrootcert" | "sslcert" | "sslkey"));
    match files.find(|(_, path)| !path.contains('%') && !Path::new(path).is_file()) {
        Some((name, path)) => {
            Err(format!("the URL's parameter `{name}` names a file that is not there: {path}"))
        }
        None => Ok(()),
    }
}

/// Names and values behind the question mark.
pub(super) fn parameters(url: &str) -> impl Iterator<Item = (&str, &str)> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').filter_map(|pair| pair.split_once('='))
}

/// Whether the URL itself says how to encrypt.
pub(crate) fn says_ssl_mode(url: &str) -> bool {
    parameters(url).any(|(name, _)| matches!(name, "sslmode" | "ssl-mode"))
}

/// Whether the server is another machine, so that the connection passes a network.
pub(crate) fn is_remote(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    options.get_socket().is_none() && !host.starts_with('/') && !is_this_machine(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_masked_wherever_they_stand() {
        for (url, shown) in [
            ("postgres://u:p@h/d", "postgres://u:***@h/d"),
            ("postgres://u:p@ss@h:5/d?sslmode=require", "postgres://u:***@h:5/d?sslmode=require"),
            ("postgres://h/d?user=u&password=p", "postgres://h/d?user=u&password=***"),
            ("postgres://u@h/d", "postgres://u@h/d"),
            ("postgres://u:hun?ter2@h/d", "postgres://u:***@h/d"),
            ("postgres://h/d?password=hunter2@x", "postgres://***@x"),
            ("postgres:u:hunter2@h/d", "postgres:***"),
            ("sqlite:shop.db", "sqlite:shop.db"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }

    #[test]
    fn a_url_that_is_refused_does_not_show_its_password() {
        for url in [
            "postgres://u:hunter2@h:port/d",
            "postgres://u:hunter2/@h/d",
            "postgres://u:hunter2@h/d?pasword=x",
            "postgres://u:?hunter2=1@h/d",
        ] {
            let sentence = check_postgres(url).expect_err(url);
            assert!(!sentence.contains("hunter2"), "{sentence}");
        }
    }
}
